! gemmd's client for Fortran 2008: gemmd.h by iso_c_binding, which says what each function takes,
! returns and refuses. Programs compile this file with their own, because a module's compiled form is
! one compiler's.
!
!   use gemmd
!   options = gemmd_client_options_init()
!   code = gemmd_client_new(options, client, error)
!   a = gemmd_array_of(x)
!   ...
!   code = gemmd_matmul(client, left, right, product, result, error)
!
! Arrays lie by columns, and that is how gemmd takes them: nothing is transposed. What is given by
! c_loc() must have the attribute target, and stay until the call has ended. Structs are made by their
! _init functions, which set `size` and the defaults.
module gemmd
  use, intrinsic :: iso_c_binding
  implicit none
  public

  integer(c_int32_t), parameter :: gemmd_ok = 0, gemmd_cancelled = 1, gemmd_invalid_argument = 3, &
      gemmd_deadline_exceeded = 4, gemmd_not_found = 5, gemmd_resource_exhausted = 8, &
      gemmd_failed_precondition = 9, gemmd_unimplemented = 12, gemmd_internal = 13, gemmd_unavailable = 14

  integer(c_int32_t), parameter :: gemmd_f64 = 1, gemmd_f32 = 2, gemmd_f16 = 4, gemmd_bf16 = 5, &
      gemmd_int8 = 6, gemmd_int32 = 7, gemmd_fp8_e4m3 = 8, gemmd_fp8_e5m2 = 9

  integer(c_int32_t), parameter :: gemmd_activation_none = 0, gemmd_activation_relu = 1, &
      gemmd_activation_gelu_tanh = 2, gemmd_activation_silu = 3
  integer(c_int32_t), parameter :: gemmd_batch_invariant = 0, gemmd_fast = 1
  integer(c_int32_t), parameter :: gemmd_priority_normal = 0, gemmd_priority_high = 1, gemmd_priority_low = 2

  type, bind(c) :: gemmd_client_options
    integer(c_size_t) :: size
    type(c_ptr) :: target
    type(c_ptr) :: token
    type(c_ptr) :: tenant
    logical(c_bool) :: tls
    type(c_ptr) :: root_certificates
    type(c_ptr) :: client_certificate
    type(c_ptr) :: client_key
    type(c_ptr) :: server_name
    integer(c_int64_t) :: retry_patience_ms
    integer(c_int64_t) :: timeout_ms
    logical(c_bool) :: affinity_header
  end type

  type, bind(c) :: gemmd_array
    integer(c_size_t) :: size
    type(c_ptr) :: data
    integer(c_int32_t) :: dtype
    integer(c_int64_t) :: rows
    integer(c_int64_t) :: columns
    integer(c_int64_t) :: row_stride
    integer(c_int64_t) :: column_stride
  end type

  type, bind(c) :: gemmd_operand
    integer(c_size_t) :: size
    type(c_ptr) :: array
    type(c_ptr) :: matrix
    type(c_ptr) :: name
  end type

  type, bind(c) :: gemmd_matmul_options
    integer(c_size_t) :: size
    real(c_double) :: alpha
    real(c_double) :: beta
    logical(c_bool) :: transpose_a
    logical(c_bool) :: transpose_b
    type(c_ptr) :: c
    type(c_ptr) :: bias
    integer(c_int32_t) :: activation
    integer(c_int32_t) :: output_type
    integer(c_int32_t) :: accumulate_type
    integer(c_int32_t) :: determinism
    integer(c_int32_t) :: priority
    integer(c_int32_t) :: verification_vectors
    type(c_ptr) :: kernel
    integer(c_int64_t) :: timeout_ms
    type(c_ptr) :: d
    logical(c_bool) :: keep_on_server
    integer(c_int64_t) :: lease_ms
    integer(c_int64_t) :: batch_count
    integer(c_int64_t) :: a_batch_stride
    integer(c_int64_t) :: b_batch_stride
    integer(c_int64_t) :: c_batch_stride
    integer(c_int64_t) :: bias_batch_stride
    integer(c_int64_t) :: d_batch_stride
  end type

  interface
    integer(c_int32_t) function gemmd_client_new(options, client, error) bind(c)
      import
      type(gemmd_client_options), intent(in) :: options
      type(c_ptr), intent(out) :: client, error
    end function
    integer(c_int32_t) function gemmd_client_free(client, error) bind(c)
      import
      type(c_ptr), value :: client
      type(c_ptr), intent(out) :: error
    end function

    integer(c_int32_t) function gemmd_matmul(client, a, b, options, result, error) bind(c)
      import
      type(c_ptr), value :: client
      type(gemmd_operand), intent(in) :: a, b
      type(gemmd_matmul_options), intent(in) :: options
      type(c_ptr), intent(out) :: result, error
    end function
    integer(c_int32_t) function gemmd_result_array(result, array, error) bind(c)
      import
      type(c_ptr), value :: result
      type(gemmd_array), intent(inout) :: array
      type(c_ptr), intent(out) :: error
    end function
    integer(c_int32_t) function gemmd_result_matrix(result, matrix, error) bind(c)
      import
      type(c_ptr), value :: result
      type(c_ptr), intent(out) :: matrix, error
    end function
    type(c_ptr) function gemmd_result_receipt_json(result) bind(c)
      import
      type(c_ptr), value :: result
    end function
    subroutine gemmd_result_free(result) bind(c)
      import
      type(c_ptr), value :: result
    end subroutine

    integer(c_int32_t) function gemmd_put(client, array, lease_ms, timeout_ms, matrix, error) bind(c)
      import
      type(c_ptr), value :: client
      type(gemmd_array), intent(in) :: array
      integer(c_int64_t), value :: lease_ms, timeout_ms
      type(c_ptr), intent(out) :: matrix, error
    end function
    integer(c_int32_t) function gemmd_get(client, operand, timeout_ms, result, error) bind(c)
      import
      type(c_ptr), value :: client
      type(gemmd_operand), intent(in) :: operand
      integer(c_int64_t), value :: timeout_ms
      type(c_ptr), intent(out) :: result, error
    end function
    integer(c_int32_t) function gemmd_set_name(client, operand, name, replace, timeout_ms, error) bind(c)
      import
      type(c_ptr), value :: client
      type(gemmd_operand), intent(in) :: operand
      character(kind=c_char), intent(in) :: name(*)
      logical(c_bool), value :: replace
      integer(c_int64_t), value :: timeout_ms
      type(c_ptr), intent(out) :: error
    end function
    integer(c_int32_t) function gemmd_release(client, operand, timeout_ms, error) bind(c)
      import
      type(c_ptr), value :: client
      type(gemmd_operand), intent(in) :: operand
      integer(c_int64_t), value :: timeout_ms
      type(c_ptr), intent(out) :: error
    end function
    integer(c_int64_t) function gemmd_matrix_rows(matrix) bind(c)
      import
      type(c_ptr), value :: matrix
    end function
    integer(c_int64_t) function gemmd_matrix_columns(matrix) bind(c)
      import
      type(c_ptr), value :: matrix
    end function
    subroutine gemmd_matrix_free(matrix) bind(c)
      import
      type(c_ptr), value :: matrix
    end subroutine

    type(c_ptr) function gemmd_version() bind(c)
      import
    end function
    type(c_ptr) function gemmd_code_name(code) bind(c)
      import
      integer(c_int32_t), value :: code
    end function
    type(c_ptr) function gemmd_error_message(error) bind(c)
      import
      type(c_ptr), value :: error
    end function
    type(c_ptr) function gemmd_error_field(error) bind(c)
      import
      type(c_ptr), value :: error
    end function
    integer(c_int64_t) function gemmd_error_limit(error) bind(c)
      import
      type(c_ptr), value :: error
    end function
    subroutine gemmd_error_free(error) bind(c)
      import
      type(c_ptr), value :: error
    end subroutine
  end interface

  ! A contiguous matrix where it lies.
  interface gemmd_array_of
    module procedure array_of_f32, array_of_f64
  end interface

contains

  type(gemmd_client_options) function gemmd_client_options_init() result(made)
    made = gemmd_client_options(0, c_null_ptr, c_null_ptr, c_null_ptr, .false., c_null_ptr, c_null_ptr, &
        c_null_ptr, c_null_ptr, 0, 0, .false.)
    made%size = c_sizeof(made)
  end function

  type(gemmd_array) function gemmd_array_init() result(made)
    made = gemmd_array(0, c_null_ptr, 0, 0, 0, 0, 0)
    made%size = c_sizeof(made)
  end function

  type(gemmd_operand) function gemmd_operand_init() result(made)
    made = gemmd_operand(0, c_null_ptr, c_null_ptr, c_null_ptr)
    made%size = c_sizeof(made)
  end function

  type(gemmd_matmul_options) function gemmd_matmul_options_init() result(made)
    made = gemmd_matmul_options(0, 1, 0, .false., .false., c_null_ptr, c_null_ptr, 0, 0, 0, 0, 0, 0, c_null_ptr, &
        0, c_null_ptr, .false., 0, 0, 0, 0, 0, 0, 0)
    made%size = c_sizeof(made)
  end function

  type(gemmd_array) function array_of_f32(x) result(made)
    real(c_float), intent(in), target, contiguous :: x(:, :)
    made = array_of(c_loc(x), gemmd_f32, shape(x, c_int64_t))
  end function

  type(gemmd_array) function array_of_f64(x) result(made)
    real(c_double), intent(in), target, contiguous :: x(:, :)
    made = array_of(c_loc(x), gemmd_f64, shape(x, c_int64_t))
  end function

  type(gemmd_array) function array_of(address, dtype, extents) result(made)
    type(c_ptr), intent(in) :: address
    integer(c_int32_t), intent(in) :: dtype
    integer(c_int64_t), intent(in) :: extents(2)
    made = gemmd_array_init()
    made%data = address
    made%dtype = dtype
    made%rows = extents(1)
    made%columns = extents(2)
    made%row_stride = 1
    made%column_stride = max(1_c_int64_t, extents(1))
  end function

  ! A text of the library's, until the end of a C string; empty where there is none.
  function gemmd_text(address) result(text)
    type(c_ptr), intent(in) :: address
    character(len=:), allocatable :: text
    character(kind=c_char), pointer :: characters(:)
    interface
      integer(c_size_t) function strlen(s) bind(c)
        import
        type(c_ptr), value :: s
      end function
    end interface
    integer(c_size_t) :: i
    if (.not. c_associated(address)) then
      text = ''
      return
    end if
    call c_f_pointer(address, characters, [strlen(address)])
    allocate (character(len=size(characters)) :: text)
    do i = 1, size(characters, kind=c_size_t)
      text(i:i) = characters(i)
    end do
  end function

end module
