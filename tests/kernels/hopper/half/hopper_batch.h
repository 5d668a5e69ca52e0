// A batch of equal problems with their planes in one arena for each operand, which may be copied
// to a GPU as it is.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "tests/kernels/hopper/half/hopper_run.h"

namespace gemmd::testing {

enum class Spacing {
  kEqual,      // at equal distances
  kScattered,  // in another order, with gaps that differ
  kSharedA,    // one A for all, the rest scattered
};

// Offsets of the planes in an arena aligned to 256 bytes.
struct Arena {
  std::vector<std::uint64_t> offsets;
  std::vector<unsigned char> bytes;
  unsigned char* data() {
    return bytes.data() + (256 - reinterpret_cast<std::uintptr_t>(bytes.data()) % 256) % 256;
  }
  std::uint64_t size() const { return bytes.size() - 256; }
};

inline Arena MakeArena(std::uint64_t plane_bytes, int problems, Spacing spacing) {
  constexpr unsigned char kPoison = 0x7f;
  const std::uint64_t step = (plane_bytes + 15) / 16 * 16 + 32;
  Arena arena;
  std::uint64_t at = 0;
  for (int i = 0; i < problems; ++i) {
    // Every third gap is wider; neighbours change places.
    const bool is_equal = spacing == Spacing::kEqual;
    arena.offsets.push_back(at);
    at += step + (!is_equal && i % 3 == 1 ? 64 : 0);
  }
  if (spacing != Spacing::kEqual) {
    for (std::size_t i = 0; i + 1 < arena.offsets.size(); i += 2) {
      std::swap(arena.offsets[i], arena.offsets[i + 1]);
    }
  }
  arena.bytes.assign(at + 256, kPoison);
  return arena;
}

// The planes of a batch's problems, in an arena for each operand.
struct BatchArenas {
  // `problem`: of each of them.
  BatchArenas(const Problem& problem, int problems, Spacing spacing)
      : count(problems),
        a(MakeArena(problem.a.size_bytes(), problems, spacing)),
        b(MakeArena(problem.b.size_bytes(), problems, spacing)),
        c_plane(MakeArena(problem.c.size_bytes(), problems, spacing)),
        bias(MakeArena(static_cast<std::uint64_t>(problem.n) * 8, problems, spacing)),
        d(MakeArena(problem.d.size_bytes(), problems, spacing)) {
    if (spacing == Spacing::kSharedA) {
      a.offsets.assign(static_cast<std::size_t>(problems), a.offsets[0]);
    }
  }

  // Returns the arguments with the arenas at these addresses.
  std::vector<Arguments> At(const void* a_at, const void* b_at, const void* c_at,
                            const void* bias_at, void* d_at) const {
    std::vector<Arguments> all(static_cast<std::size_t>(count));
    for (std::size_t i = 0; i < all.size(); ++i) {
      all[i].a = static_cast<const char*>(a_at) + a.offsets[i];
      all[i].b = static_cast<const char*>(b_at) + b.offsets[i];
      all[i].c = static_cast<const char*>(c_at) + c_plane.offsets[i];
      all[i].bias = static_cast<const char*>(bias_at) + bias.offsets[i];
      all[i].d = static_cast<char*>(d_at) + d.offsets[i];
    }
    return all;
  }

  int count;
  Arena a;
  Arena b;
  Arena c_plane;
  Arena bias;
  Arena d;
};

struct HopperBatch : BatchArenas {
  HopperBatch(const HopperCase& c, int problems, Spacing spacing)
      : BatchArenas(MakeHopperProblem(c), problems, spacing), problem(MakeHopperProblem(c)) {
    std::mt19937 random(7);
    Fill(&a, problem.a.type, problem.a.size_bytes(), &random);
    Fill(&b, problem.b.type, problem.b.size_bytes(), &random);
    Fill(&c_plane, problem.d.type, problem.c.size_bytes(), &random);
    Fill(&bias, problem.d.type, static_cast<std::uint64_t>(c.n * SizeBits(problem.d.type) / 8),
         &random);
  }

  // Small whole numbers and their halves, which every type has: a table of them from another
  // start for each plane.
  static void Fill(Arena* arena, DataType type, std::uint64_t plane_bytes, std::mt19937* random) {
    constexpr std::size_t kEntries = 9973;
    const std::size_t size = static_cast<std::size_t>(SizeBits(type)) / 8;
    std::vector<unsigned char> table(kEntries * size);
    for (std::size_t i = 0; i < kEntries; ++i) {
      const float value = (static_cast<float>((*random)() % 17) - 8) / 2;
      if (type == DataType::kF32) {
        std::memcpy(&table[i * size], &value, size);
      } else {
        const std::uint16_t half = emulator::Narrow(FormatOf(FormOf(type)), value);
        std::memcpy(&table[i * size], &half, size);
      }
    }
    for (const std::uint64_t offset : arena->offsets) {
      std::size_t from = (*random)() % kEntries * size;
      for (std::uint64_t at = 0; at < plane_bytes;) {
        const std::size_t bytes =
            std::min<std::size_t>(table.size() - from, static_cast<std::size_t>(plane_bytes - at));
        std::memcpy(arena->data() + offset + at, &table[from], bytes);
        at += bytes;
        from = 0;
      }
    }
  }

  Problem problem;
};

}  // namespace gemmd::testing
