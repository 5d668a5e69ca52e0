#include "client/split/splitting.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/numbers/types.h"

namespace gemmd::client {
namespace {

void Append(SplitRun::Actions more, SplitRun::Actions* actions) {
  std::move(more.begins.begin(), more.begins.end(), std::back_inserter(actions->begins));
  std::move(more.cancels.begin(), more.cancels.end(), std::back_inserter(actions->cancels));
}

}  // namespace

Splitting::Splitting(Client& client, const CallOptions& call, const HedgePolicy& policy,
                     const std::vector<RowRange>& rows, const std::vector<std::string>& servers,
                     bool knows_columns)
    : client_(client),
      knows_columns_(knows_columns),
      call_(call),
      deadline_(absl::Now() + call.timeout),
      rows_(rows),
      writers_(rows.size()),
      products_(rows.size()),
      run_(policy, rows, servers) {}

std::uint64_t Splitting::OffsetOf(std::size_t part) const {
  const auto element = static_cast<std::uint64_t>(SizeBits(format_->type)) / 8;
  return rows_[part].begin * format_->columns * element;
}

// Where the answer goes: to its rows of D, or to memory of its own while another attempt may still
// write to them. Where the server alone says how large D is, so many bytes come before D has
// memory.
absl::StatusOr<std::optional<Buffer>> Splitting::MemoryFor(int attempt, std::size_t part,
                                                           const MatrixFormat& format) {
  // Made before the lock is taken, because its end takes it.
  const auto writer = std::make_shared<Writer>(shared_from_this());
  const MutexLock lock(mutex_);
  MatrixFormat whole = format;
  whole.rows = rows_.back().end;
  if (!format_) {
    const absl::StatusOr<std::uint64_t> size = SizeBytes(whole);
    if (!size.ok()) return size.status();
    if (SizeBits(whole.type) % 8 != 0 || whole.stride() != whole.inner()) {
      return absl::InvalidArgumentError(
          absl::StrCat("D is ", ToString(format), ", which was to be tightly packed"));
    }
    format_ = whole;
    if (knows_columns_) d_ = Buffer::Allocate(*size);
  } else if (whole.type != format_->type || whole.columns != format_->columns ||
             whole.stride() != format_->stride()) {
    return absl::InvalidArgumentError(
        absl::StrCat("D is ", ToString(whole), ", and of another part ", ToString(*format_)));
  }
  if (!d_ || !run_.IsWanted(attempt) || !writers_[part].expired()) return std::nullopt;
  writers_[part] = writer;
  return Buffer::Of(std::shared_ptr<char>(writer, d_->data() + OffsetOf(part)), *SizeBytes(format));
}

void Splitting::Begin(const SplitRun::Begin& begin, const EncodedMatmul& part) {
  auto encoded = std::make_shared<EncodedMatmul>(part);
  const auto self = shared_from_this();
  encoded->expected.into = [self, begin](const MatrixFormat& format) {
    return self->MemoryFor(begin.attempt, begin.part, format);
  };
  CallOptions call = call_;
  call.timeout = deadline_ - absl::Now();
  call.first = begin.first;
  call.avoided = begin.avoided;
  auto pending =
      client_.MatmulAsync(std::move(encoded), call, [self, begin](absl::StatusOr<Product> product) {
        self->OnEnd(begin.attempt, begin.part, std::move(product));
      });
  const MutexLock lock(mutex_);
  pending_.resize(std::max(pending_.size(), static_cast<std::size_t>(begin.attempt) + 1));
  pending_[static_cast<std::size_t>(begin.attempt)] = std::move(pending);
}

void Splitting::OnEnd(int attempt, std::size_t part, absl::StatusOr<Product> product) {
  // Let go when the lock is: with it a Writer ends.
  std::optional<Matrix> in_place;
  const MutexLock lock(mutex_);
  changed_.notify_all();
  if (!product.ok()) return Append(run_.Fail(attempt, product.status(), Now()), &due_);
  SplitRun::Answer answer{product->receipt.address, product->receipt.server.numerics_id()};
  if (run_.IsWanted(attempt)) {
    const bool is_in_place = d_ && product->d->bytes().data() == d_->data() + OffsetOf(part);
    if (is_in_place) in_place = std::exchange(product->d, std::nullopt);
    products_[part] = *std::move(product);
  }
  Append(run_.Succeed(attempt, std::move(answer), Now()), &due_);
}

void Splitting::Do(const std::vector<std::shared_ptr<const EncodedMatmul>>& parts,
                   const SplitRun::Actions& actions) {
  // Begun first: one may have to be cancelled already.
  for (const SplitRun::Begin& begin : actions.begins) Begin(begin, *parts[begin.part]);
  for (const int attempt : actions.cancels) {
    std::shared_ptr<PendingMatmul> pending;
    {
      const MutexLock lock(mutex_);
      pending = pending_[static_cast<std::size_t>(attempt)];
    }
    pending->Cancel();
  }
}

bool Splitting::IsOver() const {
  return run_.is_over() && std::all_of(writers_.begin(), writers_.end(),
                                       [](const auto& writer) { return writer.expired(); });
}

std::optional<SplitRun::Actions> Splitting::Next() {
  const MutexLock lock(mutex_);
  while (due_.begins.empty() && due_.cancels.empty()) {
    if (IsOver()) return std::nullopt;
    const absl::Duration wake = run_.next_wake();
    if (wake <= Now()) {
      due_ = run_.Wake(Now());
    } else if (wake == absl::InfiniteDuration()) {
      changed_.wait(mutex_);
    } else {
      changed_.wait_until(mutex_, begun_ + absl::ToChronoNanoseconds(wake));
    }
  }
  return std::exchange(due_, {});
}

absl::StatusOr<SplitProduct> Splitting::Run(
    const std::vector<std::shared_ptr<const EncodedMatmul>>& parts) {
  {
    const MutexLock lock(mutex_);
    due_ = run_.Start(Now());
  }
  while (const std::optional<SplitRun::Actions> actions = Next()) Do(parts, *actions);
  return Conclude();
}

absl::StatusOr<SplitProduct> Splitting::Conclude() {
  const MutexLock lock(mutex_);
  if (!run_.status().ok()) return run_.status();
  const std::uint64_t size = *SizeBytes(*format_);
  if (!d_) d_ = Buffer::Allocate(size);
  std::vector<SplitPart> parts;
  parts.reserve(rows_.size());
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    Product& product = *products_[i];
    if (product.d) {
      const absl::string_view bytes = product.d->bytes();
      std::memcpy(d_->data() + OffsetOf(i), bytes.data(), bytes.size());
    }
    const SplitRun::Part& part = run_.parts()[i];
    parts.push_back({rows_[i], part.is_hedged, part.repeats, product.d.has_value(),
                     std::move(product.receipt)});
  }
  absl::StatusOr<Matrix> d = Matrix::Create(*format_, std::move(*d_).Freeze(size));
  if (!d.ok()) return d.status();
  return SplitProduct{*std::move(d), std::move(parts), Now()};
}

}  // namespace gemmd::client
