// Types of 4 bits whose codes are places in a table of 16 values.
//
//   nf4      16 quantiles of a normal distribution, scaled to [-1, 1]
//   bnb_fp4  a sign above 3 bits that name 0, 1/192, 2/3, 1, 1/3, 1/2, 1/6 and 1/4, as binary32
//            rounds them; neither zero is negative
//   iq4_nl   integers, nearer to each other around 0, which is none of them
//
// Sources: T. Dettmers et al., "QLoRA: Efficient Finetuning of Quantized LLMs", 2023, appendix E;
// bitsandbytes 0.50.2 (functional.py, get_4bit_type); ggml (ggml-common.h, kvalues_iq4nl).
#pragma once

#include <array>
#include <cstdint>

#include "base/numbers/quant/rounding.h"
#include "base/numbers/types.h"

namespace gemmd {

using CodeTable = std::array<float, 16>;

// Null for other types.
const CodeTable* CodeTableOf(DataType type);

// The code whose value is nearest, of two the even one; what is beyond the table's ends becomes its
// end, and NaN the largest value. Stochastic rounding goes up from the value below with the
// probability that is the distance from it, in units of the distance between both neighbours,
// computed in binary64.
std::uint32_t EncodeInTable(const CodeTable& table, double value, const Rounding& rounding,
                            std::uint64_t index);

}  // namespace gemmd
