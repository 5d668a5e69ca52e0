/* The C interface of gemmd's client: products on a server, and matrices that it keeps.
 *
 *   gemmd_client_options options = GEMMD_CLIENT_OPTIONS_INIT;
 *   options.target = "127.0.0.1:50051";
 *   gemmd_client_new(&options, &client, &error);
 *   gemmd_matmul(client, &a, &b, NULL, &result, &error);
 *
 * Errors. Each function that can fail returns a code, GEMMD_OK or one of gRPC's, and takes
 * `gemmd_error** error` last. Where that is not NULL, it is set to NULL or to an error that the
 * caller frees with gemmd_error_free(); where memory is short it may be NULL beside a code. Handles
 * that a function returns through a pointer are NULL unless it returns GEMMD_OK. No C++ exception
 * leaves this library.
 *
 * Growth. A struct that may grow begins with `size`, which its _INIT macro sets to the size that
 * the program was compiled with. A field that a later version adds means what was before where it
 * is zero. A library that is older than the program refuses fields that it does not know unless
 * they are zero.
 *
 * Threads. All functions may be called by many threads at a time on one client, one gemmd_call and
 * one gemmd_matrix. A gemmd_result and a gemmd_error may be read by many threads at a time. A
 * handle that is freed must be in no other call's use, but for the products under way of a client.
 *
 * Memory. Strings and arrays that are arguments stay the caller's; strings are copied. Strings that
 * are returned belong to the handle that was asked, and live as long as it does. Every _free
 * function takes NULL.
 */
#ifndef GEMMD_GEMMD_H_
#define GEMMD_GEMMD_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gemmd_error gemmd_error;
typedef struct gemmd_client gemmd_client;
typedef struct gemmd_server_info gemmd_server_info;
typedef struct gemmd_matrix gemmd_matrix;
typedef struct gemmd_result gemmd_result;
typedef struct gemmd_call gemmd_call;
typedef struct gemmd_weights gemmd_weights;
typedef struct gemmd_tensor gemmd_tensor;

/* The library's version, "0.2.0". */
const char* gemmd_version(void);

/* ---------------------------------------------------------------- errors */

/* A code is one of these; the numbers are google.rpc.Code's. */
typedef int32_t gemmd_code;
enum {
  GEMMD_OK = 0,
  GEMMD_CANCELLED = 1,
  GEMMD_UNKNOWN = 2,
  GEMMD_INVALID_ARGUMENT = 3,
  GEMMD_DEADLINE_EXCEEDED = 4,
  GEMMD_NOT_FOUND = 5,
  GEMMD_ALREADY_EXISTS = 6,
  GEMMD_PERMISSION_DENIED = 7,
  GEMMD_RESOURCE_EXHAUSTED = 8,
  GEMMD_FAILED_PRECONDITION = 9,
  GEMMD_ABORTED = 10,
  GEMMD_OUT_OF_RANGE = 11,
  GEMMD_UNIMPLEMENTED = 12,
  GEMMD_INTERNAL = 13,
  GEMMD_UNAVAILABLE = 14,
  GEMMD_DATA_LOSS = 15,
  GEMMD_UNAUTHENTICATED = 16
};

/* "INVALID_ARGUMENT"; "UNKNOWN" for a number that is no code. Lives for ever. */
const char* gemmd_code_name(gemmd_code code);

gemmd_code gemmd_error_code(const gemmd_error* error);
/* The server's own words, or this library's. */
const char* gemmd_error_message(const gemmd_error* error);
/* The field that the message is about, "a.rows"; "" where it names none. It is read out of the
 * message, as the limit is. */
const char* gemmd_error_field(const gemmd_error* error);
/* The limit that was exceeded, in the field's unit; -1 where the message names none. */
int64_t gemmd_error_limit(const gemmd_error* error);
/* Milliseconds after which the server wants a product to be asked for again; -1 where it did not
 * say. This library has tried again before, as retry_patience_ms says. */
int64_t gemmd_error_retry_after_ms(const gemmd_error* error);
/* gemmd.v1.StatusDetails as protobuf's bytes: the server's details, and this library's marks,
 * "gemmd/client/unreachable" for example. NULL and 0 where there is no error. */
const void* gemmd_error_details(const gemmd_error* error, uint64_t* bytes);
void gemmd_error_free(gemmd_error* error);

/* ---------------------------------------------------------------- clients */

/* Strings may be NULL or "", which is the default. */
typedef struct gemmd_client_options {
  size_t size;
  /* host:port, dns:///host:port or unix:path; 127.0.0.1:50051 by default. Several with commas
     between them, and dns:///, which is all addresses of a name, are one client's: an error's
     message begins with the server that it is of */
  const char* target;
  const char* token;  /* the bearer token of each call */
  const char* tenant; /* who owns the matrices, unless the token or a certificate says so */
  bool tls;           /* else plain text, in which the token can be read on the way */
  /* With TLS, all PEM: the authorities trusted (the system's by default), and a certificate and its
   * key, both or none. */
  const char* root_certificates;
  const char* client_certificate;
  const char* client_key;
  const char* server_name; /* the name to check the server's certificate for */
  /* A server that is gone or full is tried again for so long: 0 is 10 s, -1 is never. */
  int64_t retry_patience_ms;
  int64_t timeout_ms; /* of each call that says 0 itself; 0 is no deadline */
  /* Calls about a matrix with a digest have it as the header gemmd-affinity, for a proxy that
   * spreads calls by it; products of such matrices then go in one call each */
  bool affinity_header;
} gemmd_client_options;

#define GEMMD_CLIENT_OPTIONS_INIT \
  { sizeof(gemmd_client_options), NULL, NULL, NULL, false, NULL, NULL, NULL, NULL, 0, 0, false }

/* Makes a client. It connects at the first call, and again by itself after a failure. Options may
 * be NULL.
 *
 *   INVALID_ARGUMENT  an option is negative, or belongs to TLS and tls is false
 */
gemmd_code gemmd_client_new(const gemmd_client_options* options, gemmd_client** client,
                            gemmd_error** error);

/* Cancels the products under way, waits until their callbacks have returned and other calls have
 * ended, and frees the client. Calls must not begin meanwhile; callbacks may try, and get
 * CANCELLED. Results, matrices and gemmd_call handles outlive it.
 *
 *   FAILED_PRECONDITION  in a callback, which it would wait for; nothing was freed
 */
gemmd_code gemmd_client_free(gemmd_client* client, gemmd_error** error);

/* Describes the server. `timeout_ms`: 0 is the client's; negative is refused, here and below. */
gemmd_code gemmd_server_info_get(gemmd_client* client, int64_t timeout_ms, gemmd_server_info** info,
                                 gemmd_error** error);
const char* gemmd_server_info_version(const gemmd_server_info* info);
int32_t gemmd_server_info_device_count(const gemmd_server_info* info);
/* "cpu", "cuda:0"; NULL where `index` is not 0 to the count less 1. */
const char* gemmd_server_info_device_name(const gemmd_server_info* info, int32_t index);
/* gemmd.v1.ServerInfoResponse as protobuf's JSON, with the names of admin.proto. */
const char* gemmd_server_info_json(const gemmd_server_info* info);
void gemmd_server_info_free(gemmd_server_info* info);

/* ---------------------------------------------------------------- arrays */

/* Types of elements; the numbers are gemmd.v1.DataType's. int8 and fp8 have no scales here. */
enum {
  GEMMD_F64 = 1,
  GEMMD_F32 = 2,
  GEMMD_F16 = 4,
  GEMMD_BF16 = 5,
  GEMMD_INT8 = 6,
  GEMMD_INT32 = 7, /* of C and D alone */
  GEMMD_FP8_E4M3 = 8,
  GEMMD_FP8_E5M2 = 9
};

/* A matrix in the caller's memory, little-endian. Strides count elements, as DLPack's do: element
 * (r, c) lies r * row_stride + c * column_stride elements behind `data`. Both 0: row-major and
 * contiguous. Else one stride is 1 and the other at least the length of a row (row-major) or of a
 * column (column-major, Fortran's order; a transposed row-major array). A dimension of length 1 may
 * have any stride. Other strides are refused: nothing is copied to make them fit. */
typedef struct gemmd_array {
  size_t size;
  void* data; /* an operand is only read; may be NULL where there are no elements */
  int32_t dtype;
  int64_t rows;
  int64_t columns;
  int64_t row_stride;
  int64_t column_stride;
} gemmd_array;

#define GEMMD_ARRAY_INIT \
  { sizeof(gemmd_array), NULL, 0, 0, 0, 0, 0 }

/* One operand of a product, by exactly one of its three pointers. */
typedef struct gemmd_operand {
  size_t size;
  const gemmd_array* array;   /* goes along with the request, from where it is */
  const gemmd_matrix* matrix; /* stays on the server */
  const char* name;           /* so does this: "@weights", a handle, or a digest in hexadecimal */
} gemmd_operand;

#define GEMMD_OPERAND_INIT \
  { sizeof(gemmd_operand), NULL, NULL, NULL }

/* ---------------------------------------------------------------- products */

enum {
  GEMMD_ACTIVATION_NONE = 0,
  GEMMD_ACTIVATION_RELU = 1,
  GEMMD_ACTIVATION_GELU_TANH = 2,
  GEMMD_ACTIVATION_SILU = 3
};
enum { GEMMD_BATCH_INVARIANT = 0, GEMMD_FAST = 1 };
enum { GEMMD_PRIORITY_NORMAL = 0, GEMMD_PRIORITY_HIGH = 1, GEMMD_PRIORITY_LOW = 2 };

/* D = activation(alpha * op(A) * op(B) + beta * C + bias), where op(A) is M x K and op(B) K x N. */
typedef struct gemmd_matmul_options {
  size_t size;
  double alpha;
  double beta;
  bool transpose_a;          /* A is K x M */
  bool transpose_b;          /* B is N x K */
  const gemmd_operand* c;    /* M x N; needed where beta is not 0 */
  const gemmd_operand* bias; /* 1 x N */
  int32_t activation;
  int32_t output_type;     /* D's; 0: as gemm.proto says, mostly that of A */
  int32_t accumulate_type; /* 0: the server's rule */
  int32_t determinism;
  int32_t priority;
  uint32_t verification_vectors; /* of Freivalds' check; 0 is off */
  const char* kernel;            /* by name; NULL lets the server choose */
  int64_t timeout_ms;            /* of the whole call, 0 is the client's */
  /* Memory that D is copied to, M x N, with its dtype and strides; the result then has no array. It
   * may be memory of operands, C for example: these are no longer read then. */
  const gemmd_array* d;
  bool keep_on_server; /* D stays there; gemmd_result_matrix() names it. Not together with `d`. */
  int64_t lease_ms;    /* of D that stays, after each use; 0 is the server's default */
  /* Many products of one shape in one request, each with the bits that it has alone; 0 is one
   * product, without strides. Arrays describe the first product's matrices, and product k's lie
   * k strides behind them, in elements. With stride 0 all products take that matrix, as they must
   * where it stays on the server; 0 of `d` is results that follow each other, each with all of its
   * lines. Not together with `keep_on_server`. UNIMPLEMENTED: the server is older than batches. */
  int64_t batch_count; /* 0, or 1 to 16777216 */
  int64_t a_batch_stride;
  int64_t b_batch_stride;
  int64_t c_batch_stride;
  int64_t bias_batch_stride;
  int64_t d_batch_stride; /* results must not overlap */
} gemmd_matmul_options;

#define GEMMD_MATMUL_OPTIONS_INIT                                                                  \
  {                                                                                                \
    sizeof(gemmd_matmul_options), 1, 0, false, false, NULL, NULL, 0, 0, 0, 0, 0, 0, NULL, 0, NULL, \
        false, 0, 0, 0, 0, 0, 0, 0                                                                 \
  }

/* Multiplies, and waits for the product. Options may be NULL. Memory of operands is not copied and
 * not read any more when it returns; after a deadline or a cancellation it may wait for that until
 * the connection has let go of it, up to 40 s where the peer is silent.
 *
 *   INVALID_ARGUMENT     an argument, by field, value and limit; or the server's refusal
 *   FAILED_PRECONDITION  in a callback, which must not wait; or no kernel takes the product
 *   UNAVAILABLE          the server is gone, or draining
 *   and what ARCHITECTURE.md's "Status codes" lists
 */
gemmd_code gemmd_matmul(gemmd_client* client, const gemmd_operand* a, const gemmd_operand* b,
                        const gemmd_matmul_options* options, gemmd_result** result,
                        gemmd_error** error);

/* Called once with a result or an error, the other one NULL; the callee frees it. It may run on any
 * thread, even before gemmd_matmul_async() returns, and must not wait: functions that wait refuse
 * to run in it. */
typedef void (*gemmd_matmul_callback)(void* context, gemmd_result* result, gemmd_error* error);

/* Begins a product. Where it returns GEMMD_OK, the callback runs exactly once; else never. Memory
 * of operands and of `options->d` must stay until the callback runs; the structs may go at once.
 * `call` may be NULL; else the caller frees it. */
gemmd_code gemmd_matmul_async(gemmd_client* client, const gemmd_operand* a, const gemmd_operand* b,
                              const gemmd_matmul_options* options, gemmd_matmul_callback callback,
                              void* context, gemmd_call** call, gemmd_error** error);

/* Ends it with CANCELLED, unless its end is already on its way. */
void gemmd_call_cancel(gemmd_call* call);
/* Lets go of the handle; the product goes on. */
void gemmd_call_free(gemmd_call* call);

/* Describes D in the result's memory; of a batch the first result, which the others follow,
 * rows * columns elements each. FAILED_PRECONDITION: D went to `options->d`, or stays on the
 * server. */
gemmd_code gemmd_result_array(const gemmd_result* result, gemmd_array* array, gemmd_error** error);
/* D that stays on the server. FAILED_PRECONDITION: it does not. The caller frees the matrix. */
gemmd_code gemmd_result_matrix(const gemmd_result* result, gemmd_matrix** matrix,
                               gemmd_error** error);

/* Where a product's time went. Times are microseconds; what is not known is NaN. */
typedef struct gemmd_receipt {
  size_t size;
  uint64_t request_id; /* unique within one server process */
  const char* device;  /* "cpu", "cuda:0" */
  const char* kernel;
  const char* plan;
  const char* numerics_id; /* equal ids mean equal bits in equal rows */
  double server_total_us;  /* from the header's arrival until the receipt was written */
  double compute_us;       /* for which the kernels alone account */
  double queue_us;         /* for which waiting for the device alone accounts */
  double total_us;         /* from the call until the product was here */
  double round_trip_us;    /* of the last attempt */
  double wire_us;          /* the round trip less the server's total */
  double waited_us;        /* between attempts */
  double flops;            /* 2 M N K, times the products */
  double verification_residual;
  double error_bound;
  double joules;
  uint64_t batch_requests; /* that shared the launch, this one included */
  uint64_t batch_rows;
  uint64_t payload_bytes_in;
  uint64_t payload_bytes_out;
  int32_t attempts;
  uint64_t products; /* of the request; 0: the server is too old to say */
} gemmd_receipt;

#define GEMMD_RECEIPT_INIT                                                                         \
  {                                                                                                \
    sizeof(gemmd_receipt), 0, NULL, NULL, NULL, NULL, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, \
        0, 0                                                                                       \
  }

/* FAILED_PRECONDITION: the result is that of gemmd_get(). */
gemmd_code gemmd_result_receipt(const gemmd_result* result, gemmd_receipt* receipt,
                                gemmd_error** error);
/* {"server": gemmd.v1.Receipt as protobuf's JSON, "client": times in microseconds}; NULL for the
 * result of gemmd_get(). */
const char* gemmd_result_receipt_json(const gemmd_result* result);
void gemmd_result_free(gemmd_result* result);

/* ---------------------------------------------------------------- estimates */

/* The time that a product would take there now, in microseconds. */
typedef struct gemmd_estimated {
  size_t size;
  double receive_us; /* of the operands that go along */
  double queue_us;   /* until the device would begin */
  double device_us;  /* copies in and out, and the kernel */
  double send_us;    /* of D */
  double total_us;   /* of these four; the way there and back is the caller's to measure */
  double flops;      /* 2 M N K, times the products */
  uint64_t receive_bytes;
  uint64_t send_bytes;
  bool receive_is_measured; /* else receive_us is at 1 GB/s, which nobody measured */
  bool send_is_measured;
} gemmd_estimated;

#define GEMMD_ESTIMATED_INIT \
  { sizeof(gemmd_estimated), 0, 0, 0, 0, 0, 0, 0, 0, false, false }

/* Asks the server, and reserves nothing there. Operands and options are those of gemmd_matmul():
 * arrays are described, and their elements not read.
 *
 *   INVALID_ARGUMENT     an argument, by field, value and limit; or the server's refusal
 *   FAILED_PRECONDITION  in a callback, which must not wait; or no kernel takes the product
 */
gemmd_code gemmd_estimate(gemmd_client* client, const gemmd_operand* a, const gemmd_operand* b,
                          const gemmd_matmul_options* options, int64_t timeout_ms,
                          gemmd_estimated* estimated, gemmd_error** error);

/* ---------------------------------------------------------------- encoded products */

/* For clients of other languages that encode products themselves and want this library's
 * connections alone: Python's is one. */

enum { GEMMD_TRANSPORT_AUTO = 0, GEMMD_TRANSPORT_UNARY = 1, GEMMD_TRANSPORT_STREAM = 2 };

/* The bytes of one plane of one inline operand. */
typedef struct gemmd_encoded_plane {
  int32_t operand; /* gemmd.v1.OperandName: A, B, C or BIAS */
  int32_t plane;   /* gemmd.v1.PlaneName */
  const void* data;
  uint64_t data_bytes;
} gemmd_encoded_plane;

typedef struct gemmd_encoded_matmul {
  size_t size;
  const void* header; /* gemmd.v1.MatmulHeader, as protobuf's bytes */
  uint64_t header_bytes;
  const gemmd_encoded_plane* planes;
  int64_t plane_count;
  /* D as the header determines it: gemmd.v1.DataType, shape, order; tightly packed. */
  int32_t d_type;
  bool d_is_column_major;
  int64_t d_rows;
  int64_t d_columns;
  void* d; /* memory for D, for d_count of them; where the header has `output`, that place; NULL
            * where it has keep_result */
  const char* traceparent; /* NULL: none; so is tracestate */
  const char* tracestate;
  int32_t transport;
  int32_t channels;    /* 0 to 64; 0 chooses */
  int64_t chunk_bytes; /* of a stream: from 4096 on; 0 chooses */
  int64_t timeout_us;  /* of the whole call; 0 is the client's */
  int64_t d_count; /* the results of the header's batch, which follow each other; 0: it has none */
} gemmd_encoded_matmul;

#define GEMMD_ENCODED_MATMUL_INIT                                                                 \
  {                                                                                               \
    sizeof(gemmd_encoded_matmul), NULL, 0, NULL, 0, 0, false, 0, 0, NULL, NULL, NULL, 0, 0, 0, 0, \
        0                                                                                         \
  }

/* Begins a product, as gemmd_matmul_async() does. Operands that the server has lost are not brought
 * back: NOT_FOUND has them in gemmd_error_details(), as gemmd.v1.MissingOperands.
 *
 *   INVALID_ARGUMENT  a field is out of its range, or the header's bytes are no message
 */
gemmd_code gemmd_matmul_encoded(gemmd_client* client, const gemmd_encoded_matmul* encoded,
                                gemmd_matmul_callback callback, void* context, gemmd_call** call,
                                gemmd_error** error);

/* gemmd.v1.MatmulResponse as protobuf's bytes, without its payload, which is in `d`. NULL and 0
 * where the product was not encoded. */
const void* gemmd_result_response(const gemmd_result* result, uint64_t* bytes);

/* The way that a product's last attempt took. */
typedef struct gemmd_route {
  size_t size;
  int32_t transport;
  int32_t channels;
  int64_t chunk_bytes;
} gemmd_route;

#define GEMMD_ROUTE_INIT \
  { sizeof(gemmd_route), 0, 0, 0 }

/* FAILED_PRECONDITION: the result is that of gemmd_get(). */
gemmd_code gemmd_result_route(const gemmd_result* result, gemmd_route* route, gemmd_error** error);

/* ---------------------------------------------------------------- matrices that stay */

/* Copies an array, and uploads what the server does not have of it. The copy lives as long as the
 * matrix: a server that was restarted gets it again when a product needs it. `lease_ms`: the time
 * that the server keeps it after each use, 0 is its default. */
gemmd_code gemmd_put(gemmd_client* client, const gemmd_array* array, int64_t lease_ms,
                     int64_t timeout_ms, gemmd_matrix** matrix, gemmd_error** error);
/* Brings a matrix here; gemmd_result_array() has it. UNIMPLEMENTED: it has scales. */
gemmd_code gemmd_get(gemmd_client* client, const gemmd_operand* operand, int64_t timeout_ms,
                     gemmd_result** result, gemmd_error** error);
/* Gives a matrix one more name, with or without '@'. ALREADY_EXISTS: another has it, and `replace`
 * is false. */
gemmd_code gemmd_set_name(gemmd_client* client, const gemmd_operand* operand, const char* name,
                          bool replace, int64_t timeout_ms, gemmd_error** error);
/* Makes the server forget it; by one of its several names, that name alone. */
gemmd_code gemmd_release(gemmd_client* client, const gemmd_operand* operand, int64_t timeout_ms,
                         gemmd_error** error);

/* Its name in the server process that it was put to. */
const char* gemmd_matrix_handle(const gemmd_matrix* matrix);
/* 64 hexadecimal digits, its name on every server; "" of a product's D. */
const char* gemmd_matrix_digest(const gemmd_matrix* matrix);
int32_t gemmd_matrix_dtype(const gemmd_matrix* matrix);
int64_t gemmd_matrix_rows(const gemmd_matrix* matrix);
int64_t gemmd_matrix_columns(const gemmd_matrix* matrix);
/* Frees the handle and the copy. On the server the matrix stays until its lease ends. */
void gemmd_matrix_free(gemmd_matrix* matrix);

/* ---------------------------------------------------------------- files of weights */

/* Opens a file of weights as other programs write them: safetensors, the index of their shards,
 * GGUF, .npz or ONNX, as `gemm weights` reads it (docs/quantization.md, "Weights that you have").
 * Reads the headers and maps the rest. Danger: where another process cuts the file while it or one
 * of its tensors is in use, SIGBUS ends this one.
 *
 *   NOT_FOUND         there is no such file
 *   INVALID_ARGUMENT  it is none of these, is not sound, or is a container of `gemm quantize`
 */
gemmd_code gemmd_weights_open(const char* path, gemmd_weights** weights, gemmd_error** error);
/* "safetensors", "safetensors shards", "GGUF", "npz" or "ONNX". */
const char* gemmd_weights_kind(const gemmd_weights* weights);
int64_t gemmd_weights_count(const gemmd_weights* weights);

/* A tensor of a file. Its strings live as long as the file is open. */
typedef struct gemmd_tensor_info {
  size_t size;
  const char* name;
  const char* type;    /* as the file's format names it: "BF16", "Q4_0", "GPTQ" */
  const char* form;    /* in which a server takes it: "bf16", "int8-g32"; "": it takes none of it */
  const char* refusal; /* why there is no form, with the closest one; "" where there is one */
  const int64_t* shape;
  int32_t dimensions;
  int64_t matrices; /* of a stack, each of which is read by its index, NAME[0]; 0: it is no stack */
  int64_t rows;     /* of each matrix; 0 where there is no form, and so below */
  int64_t columns;
  int64_t bytes; /* of its form, of all matrices */
} gemmd_tensor_info;

#define GEMMD_TENSOR_INFO_INIT \
  { sizeof(gemmd_tensor_info), NULL, NULL, NULL, NULL, NULL, 0, 0, 0, 0, 0 }

/* Describes the tensor of that place, 0 to the count less 1, and reads none of its bytes. */
gemmd_code gemmd_weights_info(const gemmd_weights* weights, int64_t index, gemmd_tensor_info* info,
                              gemmd_error** error);
/* Tensors that were read outlive it. */
void gemmd_weights_free(gemmd_weights* weights);

/* Reads a matrix in the form that gemmd_weights_info() says, nothing rounded: N x K as torch has
 * weights, so that products take it as B by `transpose_b`. Plain matrices are the mapped file's
 * bytes, others are decoded.
 *
 *   NOT_FOUND         the file has no tensor of that name; the message has names that are like it
 *   INVALID_ARGUMENT  it has no form, is a stack, or has a block without a form
 */
gemmd_code gemmd_weights_read(const gemmd_weights* weights, const char* name, gemmd_tensor** tensor,
                              gemmd_error** error);
const char* gemmd_tensor_form(const gemmd_tensor* tensor);
int64_t gemmd_tensor_rows(const gemmd_tensor* tensor);
int64_t gemmd_tensor_columns(const gemmd_tensor* tensor);

/* The arrays that a tensor is made of; matrix.proto says what they mean. */
enum {
  GEMMD_PLANE_DATA = 0,
  GEMMD_PLANE_SCALES = 1,
  GEMMD_PLANE_ZERO_POINTS = 2,
  GEMMD_PLANE_TENSOR_SCALE = 3,
  GEMMD_PLANE_OFFSETS = 4,
  GEMMD_PLANE_K_ORDER = 5 /* 1 x K of int32: the place in K of each element of a row */
};

/* Memory of the tensor. `dtype` is a number of gemmd.v1.DataType; elements of fewer than 8 bits are
 * packed, the first in the lowest bits. Row-major and contiguous unless `column_major`. */
typedef struct gemmd_plane {
  size_t size;
  const void* data;
  int64_t bytes;
  int32_t dtype;
  int64_t rows;
  int64_t columns;
  bool column_major;
} gemmd_plane;

#define GEMMD_PLANE_INIT \
  { sizeof(gemmd_plane), NULL, 0, 0, 0, 0, false }

/* NOT_FOUND: it has no such plane. */
gemmd_code gemmd_tensor_plane(const gemmd_tensor* tensor, int32_t plane, gemmd_plane* described,
                              gemmd_error** error);
/* As gemmd_put(), but without a copy: the matrix keeps the tensor's memory. */
gemmd_code gemmd_put_tensor(gemmd_client* client, const gemmd_tensor* tensor, int64_t lease_ms,
                            int64_t timeout_ms, gemmd_matrix** matrix, gemmd_error** error);
void gemmd_tensor_free(gemmd_tensor* tensor);

#ifdef __cplusplus
}
#endif

#endif /* GEMMD_GEMMD_H_ */
