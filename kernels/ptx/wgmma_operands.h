// The operand lists of wgmma.mma_async for every N, as macros: an instruction names each
// accumulator register. Included by wgmma.h and wgmma_f16.h alone, for the device.
#pragma once

// Four registers at a time: their names in the instruction, then their constraints.
#define GEMMD_WGMMA_NAMES_0 "%0, %1, %2, %3"
#define GEMMD_WGMMA_NAMES_1 "%4, %5, %6, %7"
#define GEMMD_WGMMA_NAMES_2 "%8, %9, %10, %11"
#define GEMMD_WGMMA_NAMES_3 "%12, %13, %14, %15"
#define GEMMD_WGMMA_NAMES_4 "%16, %17, %18, %19"
#define GEMMD_WGMMA_NAMES_5 "%20, %21, %22, %23"
#define GEMMD_WGMMA_NAMES_6 "%24, %25, %26, %27"
#define GEMMD_WGMMA_NAMES_7 "%28, %29, %30, %31"
#define GEMMD_WGMMA_NAMES_8 "%32, %33, %34, %35"
#define GEMMD_WGMMA_NAMES_9 "%36, %37, %38, %39"
#define GEMMD_WGMMA_NAMES_10 "%40, %41, %42, %43"
#define GEMMD_WGMMA_NAMES_11 "%44, %45, %46, %47"
#define GEMMD_WGMMA_NAMES_12 "%48, %49, %50, %51"
#define GEMMD_WGMMA_NAMES_13 "%52, %53, %54, %55"
#define GEMMD_WGMMA_NAMES_14 "%56, %57, %58, %59"
#define GEMMD_WGMMA_NAMES_15 "%60, %61, %62, %63"
#define GEMMD_WGMMA_NAMES_16 "%64, %65, %66, %67"
#define GEMMD_WGMMA_NAMES_17 "%68, %69, %70, %71"
#define GEMMD_WGMMA_NAMES_18 "%72, %73, %74, %75"
#define GEMMD_WGMMA_NAMES_19 "%76, %77, %78, %79"
#define GEMMD_WGMMA_NAMES_20 "%80, %81, %82, %83"
#define GEMMD_WGMMA_NAMES_21 "%84, %85, %86, %87"
#define GEMMD_WGMMA_NAMES_22 "%88, %89, %90, %91"
#define GEMMD_WGMMA_NAMES_23 "%92, %93, %94, %95"
#define GEMMD_WGMMA_NAMES_24 "%96, %97, %98, %99"
#define GEMMD_WGMMA_NAMES_25 "%100, %101, %102, %103"
#define GEMMD_WGMMA_NAMES_26 "%104, %105, %106, %107"
#define GEMMD_WGMMA_NAMES_27 "%108, %109, %110, %111"
#define GEMMD_WGMMA_NAMES_28 "%112, %113, %114, %115"
#define GEMMD_WGMMA_NAMES_29 "%116, %117, %118, %119"
#define GEMMD_WGMMA_NAMES_30 "%120, %121, %122, %123"
#define GEMMD_WGMMA_NAMES_31 "%124, %125, %126, %127"
#define GEMMD_WGMMA_FLOATS_0 "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
#define GEMMD_WGMMA_FLOATS_1 "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7])
#define GEMMD_WGMMA_FLOATS_2 "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11])
#define GEMMD_WGMMA_FLOATS_3 "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15])
#define GEMMD_WGMMA_FLOATS_4 "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19])
#define GEMMD_WGMMA_FLOATS_5 "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23])
#define GEMMD_WGMMA_FLOATS_6 "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27])
#define GEMMD_WGMMA_FLOATS_7 "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
#define GEMMD_WGMMA_FLOATS_8 "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35])
#define GEMMD_WGMMA_FLOATS_9 "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39])
#define GEMMD_WGMMA_FLOATS_10 "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43])
#define GEMMD_WGMMA_FLOATS_11 "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47])
#define GEMMD_WGMMA_FLOATS_12 "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51])
#define GEMMD_WGMMA_FLOATS_13 "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55])
#define GEMMD_WGMMA_FLOATS_14 "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59])
#define GEMMD_WGMMA_FLOATS_15 "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63])
#define GEMMD_WGMMA_FLOATS_16 "+f"(d[64]), "+f"(d[65]), "+f"(d[66]), "+f"(d[67])
#define GEMMD_WGMMA_FLOATS_17 "+f"(d[68]), "+f"(d[69]), "+f"(d[70]), "+f"(d[71])
#define GEMMD_WGMMA_FLOATS_18 "+f"(d[72]), "+f"(d[73]), "+f"(d[74]), "+f"(d[75])
#define GEMMD_WGMMA_FLOATS_19 "+f"(d[76]), "+f"(d[77]), "+f"(d[78]), "+f"(d[79])
#define GEMMD_WGMMA_FLOATS_20 "+f"(d[80]), "+f"(d[81]), "+f"(d[82]), "+f"(d[83])
#define GEMMD_WGMMA_FLOATS_21 "+f"(d[84]), "+f"(d[85]), "+f"(d[86]), "+f"(d[87])
#define GEMMD_WGMMA_FLOATS_22 "+f"(d[88]), "+f"(d[89]), "+f"(d[90]), "+f"(d[91])
#define GEMMD_WGMMA_FLOATS_23 "+f"(d[92]), "+f"(d[93]), "+f"(d[94]), "+f"(d[95])
#define GEMMD_WGMMA_FLOATS_24 "+f"(d[96]), "+f"(d[97]), "+f"(d[98]), "+f"(d[99])
#define GEMMD_WGMMA_FLOATS_25 "+f"(d[100]), "+f"(d[101]), "+f"(d[102]), "+f"(d[103])
#define GEMMD_WGMMA_FLOATS_26 "+f"(d[104]), "+f"(d[105]), "+f"(d[106]), "+f"(d[107])
#define GEMMD_WGMMA_FLOATS_27 "+f"(d[108]), "+f"(d[109]), "+f"(d[110]), "+f"(d[111])
#define GEMMD_WGMMA_FLOATS_28 "+f"(d[112]), "+f"(d[113]), "+f"(d[114]), "+f"(d[115])
#define GEMMD_WGMMA_FLOATS_29 "+f"(d[116]), "+f"(d[117]), "+f"(d[118]), "+f"(d[119])
#define GEMMD_WGMMA_FLOATS_30 "+f"(d[120]), "+f"(d[121]), "+f"(d[122]), "+f"(d[123])
#define GEMMD_WGMMA_FLOATS_31 "+f"(d[124]), "+f"(d[125]), "+f"(d[126]), "+f"(d[127])

// The first n / 2 registers, for n columns.
#define GEMMD_WGMMA_ALL_NAMES_8 GEMMD_WGMMA_NAMES_0
#define GEMMD_WGMMA_ALL_NAMES_16 GEMMD_WGMMA_ALL_NAMES_8 ", " GEMMD_WGMMA_NAMES_1
#define GEMMD_WGMMA_ALL_NAMES_24 GEMMD_WGMMA_ALL_NAMES_16 ", " GEMMD_WGMMA_NAMES_2
#define GEMMD_WGMMA_ALL_NAMES_32 GEMMD_WGMMA_ALL_NAMES_24 ", " GEMMD_WGMMA_NAMES_3
#define GEMMD_WGMMA_ALL_NAMES_40 GEMMD_WGMMA_ALL_NAMES_32 ", " GEMMD_WGMMA_NAMES_4
#define GEMMD_WGMMA_ALL_NAMES_48 GEMMD_WGMMA_ALL_NAMES_40 ", " GEMMD_WGMMA_NAMES_5
#define GEMMD_WGMMA_ALL_NAMES_56 GEMMD_WGMMA_ALL_NAMES_48 ", " GEMMD_WGMMA_NAMES_6
#define GEMMD_WGMMA_ALL_NAMES_64 GEMMD_WGMMA_ALL_NAMES_56 ", " GEMMD_WGMMA_NAMES_7
#define GEMMD_WGMMA_ALL_NAMES_72 GEMMD_WGMMA_ALL_NAMES_64 ", " GEMMD_WGMMA_NAMES_8
#define GEMMD_WGMMA_ALL_NAMES_80 GEMMD_WGMMA_ALL_NAMES_72 ", " GEMMD_WGMMA_NAMES_9
#define GEMMD_WGMMA_ALL_NAMES_88 GEMMD_WGMMA_ALL_NAMES_80 ", " GEMMD_WGMMA_NAMES_10
#define GEMMD_WGMMA_ALL_NAMES_96 GEMMD_WGMMA_ALL_NAMES_88 ", " GEMMD_WGMMA_NAMES_11
#define GEMMD_WGMMA_ALL_NAMES_104 GEMMD_WGMMA_ALL_NAMES_96 ", " GEMMD_WGMMA_NAMES_12
#define GEMMD_WGMMA_ALL_NAMES_112 GEMMD_WGMMA_ALL_NAMES_104 ", " GEMMD_WGMMA_NAMES_13
#define GEMMD_WGMMA_ALL_NAMES_120 GEMMD_WGMMA_ALL_NAMES_112 ", " GEMMD_WGMMA_NAMES_14
#define GEMMD_WGMMA_ALL_NAMES_128 GEMMD_WGMMA_ALL_NAMES_120 ", " GEMMD_WGMMA_NAMES_15
#define GEMMD_WGMMA_ALL_NAMES_136 GEMMD_WGMMA_ALL_NAMES_128 ", " GEMMD_WGMMA_NAMES_16
#define GEMMD_WGMMA_ALL_NAMES_144 GEMMD_WGMMA_ALL_NAMES_136 ", " GEMMD_WGMMA_NAMES_17
#define GEMMD_WGMMA_ALL_NAMES_152 GEMMD_WGMMA_ALL_NAMES_144 ", " GEMMD_WGMMA_NAMES_18
#define GEMMD_WGMMA_ALL_NAMES_160 GEMMD_WGMMA_ALL_NAMES_152 ", " GEMMD_WGMMA_NAMES_19
#define GEMMD_WGMMA_ALL_NAMES_168 GEMMD_WGMMA_ALL_NAMES_160 ", " GEMMD_WGMMA_NAMES_20
#define GEMMD_WGMMA_ALL_NAMES_176 GEMMD_WGMMA_ALL_NAMES_168 ", " GEMMD_WGMMA_NAMES_21
#define GEMMD_WGMMA_ALL_NAMES_184 GEMMD_WGMMA_ALL_NAMES_176 ", " GEMMD_WGMMA_NAMES_22
#define GEMMD_WGMMA_ALL_NAMES_192 GEMMD_WGMMA_ALL_NAMES_184 ", " GEMMD_WGMMA_NAMES_23
#define GEMMD_WGMMA_ALL_NAMES_200 GEMMD_WGMMA_ALL_NAMES_192 ", " GEMMD_WGMMA_NAMES_24
#define GEMMD_WGMMA_ALL_NAMES_208 GEMMD_WGMMA_ALL_NAMES_200 ", " GEMMD_WGMMA_NAMES_25
#define GEMMD_WGMMA_ALL_NAMES_216 GEMMD_WGMMA_ALL_NAMES_208 ", " GEMMD_WGMMA_NAMES_26
#define GEMMD_WGMMA_ALL_NAMES_224 GEMMD_WGMMA_ALL_NAMES_216 ", " GEMMD_WGMMA_NAMES_27
#define GEMMD_WGMMA_ALL_NAMES_232 GEMMD_WGMMA_ALL_NAMES_224 ", " GEMMD_WGMMA_NAMES_28
#define GEMMD_WGMMA_ALL_NAMES_240 GEMMD_WGMMA_ALL_NAMES_232 ", " GEMMD_WGMMA_NAMES_29
#define GEMMD_WGMMA_ALL_NAMES_248 GEMMD_WGMMA_ALL_NAMES_240 ", " GEMMD_WGMMA_NAMES_30
#define GEMMD_WGMMA_ALL_NAMES_256 GEMMD_WGMMA_ALL_NAMES_248 ", " GEMMD_WGMMA_NAMES_31
#define GEMMD_WGMMA_ALL_FLOATS_8 GEMMD_WGMMA_FLOATS_0
#define GEMMD_WGMMA_ALL_FLOATS_16 GEMMD_WGMMA_ALL_FLOATS_8, GEMMD_WGMMA_FLOATS_1
#define GEMMD_WGMMA_ALL_FLOATS_24 GEMMD_WGMMA_ALL_FLOATS_16, GEMMD_WGMMA_FLOATS_2
#define GEMMD_WGMMA_ALL_FLOATS_32 GEMMD_WGMMA_ALL_FLOATS_24, GEMMD_WGMMA_FLOATS_3
#define GEMMD_WGMMA_ALL_FLOATS_40 GEMMD_WGMMA_ALL_FLOATS_32, GEMMD_WGMMA_FLOATS_4
#define GEMMD_WGMMA_ALL_FLOATS_48 GEMMD_WGMMA_ALL_FLOATS_40, GEMMD_WGMMA_FLOATS_5
#define GEMMD_WGMMA_ALL_FLOATS_56 GEMMD_WGMMA_ALL_FLOATS_48, GEMMD_WGMMA_FLOATS_6
#define GEMMD_WGMMA_ALL_FLOATS_64 GEMMD_WGMMA_ALL_FLOATS_56, GEMMD_WGMMA_FLOATS_7
#define GEMMD_WGMMA_ALL_FLOATS_72 GEMMD_WGMMA_ALL_FLOATS_64, GEMMD_WGMMA_FLOATS_8
#define GEMMD_WGMMA_ALL_FLOATS_80 GEMMD_WGMMA_ALL_FLOATS_72, GEMMD_WGMMA_FLOATS_9
#define GEMMD_WGMMA_ALL_FLOATS_88 GEMMD_WGMMA_ALL_FLOATS_80, GEMMD_WGMMA_FLOATS_10
#define GEMMD_WGMMA_ALL_FLOATS_96 GEMMD_WGMMA_ALL_FLOATS_88, GEMMD_WGMMA_FLOATS_11
#define GEMMD_WGMMA_ALL_FLOATS_104 GEMMD_WGMMA_ALL_FLOATS_96, GEMMD_WGMMA_FLOATS_12
#define GEMMD_WGMMA_ALL_FLOATS_112 GEMMD_WGMMA_ALL_FLOATS_104, GEMMD_WGMMA_FLOATS_13
#define GEMMD_WGMMA_ALL_FLOATS_120 GEMMD_WGMMA_ALL_FLOATS_112, GEMMD_WGMMA_FLOATS_14
#define GEMMD_WGMMA_ALL_FLOATS_128 GEMMD_WGMMA_ALL_FLOATS_120, GEMMD_WGMMA_FLOATS_15
#define GEMMD_WGMMA_ALL_FLOATS_136 GEMMD_WGMMA_ALL_FLOATS_128, GEMMD_WGMMA_FLOATS_16
#define GEMMD_WGMMA_ALL_FLOATS_144 GEMMD_WGMMA_ALL_FLOATS_136, GEMMD_WGMMA_FLOATS_17
#define GEMMD_WGMMA_ALL_FLOATS_152 GEMMD_WGMMA_ALL_FLOATS_144, GEMMD_WGMMA_FLOATS_18
#define GEMMD_WGMMA_ALL_FLOATS_160 GEMMD_WGMMA_ALL_FLOATS_152, GEMMD_WGMMA_FLOATS_19
#define GEMMD_WGMMA_ALL_FLOATS_168 GEMMD_WGMMA_ALL_FLOATS_160, GEMMD_WGMMA_FLOATS_20
#define GEMMD_WGMMA_ALL_FLOATS_176 GEMMD_WGMMA_ALL_FLOATS_168, GEMMD_WGMMA_FLOATS_21
#define GEMMD_WGMMA_ALL_FLOATS_184 GEMMD_WGMMA_ALL_FLOATS_176, GEMMD_WGMMA_FLOATS_22
#define GEMMD_WGMMA_ALL_FLOATS_192 GEMMD_WGMMA_ALL_FLOATS_184, GEMMD_WGMMA_FLOATS_23
#define GEMMD_WGMMA_ALL_FLOATS_200 GEMMD_WGMMA_ALL_FLOATS_192, GEMMD_WGMMA_FLOATS_24
#define GEMMD_WGMMA_ALL_FLOATS_208 GEMMD_WGMMA_ALL_FLOATS_200, GEMMD_WGMMA_FLOATS_25
#define GEMMD_WGMMA_ALL_FLOATS_216 GEMMD_WGMMA_ALL_FLOATS_208, GEMMD_WGMMA_FLOATS_26
#define GEMMD_WGMMA_ALL_FLOATS_224 GEMMD_WGMMA_ALL_FLOATS_216, GEMMD_WGMMA_FLOATS_27
#define GEMMD_WGMMA_ALL_FLOATS_232 GEMMD_WGMMA_ALL_FLOATS_224, GEMMD_WGMMA_FLOATS_28
#define GEMMD_WGMMA_ALL_FLOATS_240 GEMMD_WGMMA_ALL_FLOATS_232, GEMMD_WGMMA_FLOATS_29
#define GEMMD_WGMMA_ALL_FLOATS_248 GEMMD_WGMMA_ALL_FLOATS_240, GEMMD_WGMMA_FLOATS_30
#define GEMMD_WGMMA_ALL_FLOATS_256 GEMMD_WGMMA_ALL_FLOATS_248, GEMMD_WGMMA_FLOATS_31

// The same registers as words, of two f16 accumulators each.
#define GEMMD_WGMMA_WORDS_0 "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
#define GEMMD_WGMMA_WORDS_1 "+r"(d[4]), "+r"(d[5]), "+r"(d[6]), "+r"(d[7])
#define GEMMD_WGMMA_WORDS_2 "+r"(d[8]), "+r"(d[9]), "+r"(d[10]), "+r"(d[11])
#define GEMMD_WGMMA_WORDS_3 "+r"(d[12]), "+r"(d[13]), "+r"(d[14]), "+r"(d[15])
#define GEMMD_WGMMA_WORDS_4 "+r"(d[16]), "+r"(d[17]), "+r"(d[18]), "+r"(d[19])
#define GEMMD_WGMMA_WORDS_5 "+r"(d[20]), "+r"(d[21]), "+r"(d[22]), "+r"(d[23])
#define GEMMD_WGMMA_WORDS_6 "+r"(d[24]), "+r"(d[25]), "+r"(d[26]), "+r"(d[27])
#define GEMMD_WGMMA_WORDS_7 "+r"(d[28]), "+r"(d[29]), "+r"(d[30]), "+r"(d[31])
#define GEMMD_WGMMA_WORDS_8 "+r"(d[32]), "+r"(d[33]), "+r"(d[34]), "+r"(d[35])
#define GEMMD_WGMMA_WORDS_9 "+r"(d[36]), "+r"(d[37]), "+r"(d[38]), "+r"(d[39])
#define GEMMD_WGMMA_WORDS_10 "+r"(d[40]), "+r"(d[41]), "+r"(d[42]), "+r"(d[43])
#define GEMMD_WGMMA_WORDS_11 "+r"(d[44]), "+r"(d[45]), "+r"(d[46]), "+r"(d[47])
#define GEMMD_WGMMA_WORDS_12 "+r"(d[48]), "+r"(d[49]), "+r"(d[50]), "+r"(d[51])
#define GEMMD_WGMMA_WORDS_13 "+r"(d[52]), "+r"(d[53]), "+r"(d[54]), "+r"(d[55])
#define GEMMD_WGMMA_WORDS_14 "+r"(d[56]), "+r"(d[57]), "+r"(d[58]), "+r"(d[59])
#define GEMMD_WGMMA_WORDS_15 "+r"(d[60]), "+r"(d[61]), "+r"(d[62]), "+r"(d[63])
#define GEMMD_WGMMA_ALL_WORDS_8 GEMMD_WGMMA_WORDS_0
#define GEMMD_WGMMA_ALL_WORDS_16 GEMMD_WGMMA_ALL_WORDS_8, GEMMD_WGMMA_WORDS_1
#define GEMMD_WGMMA_ALL_WORDS_24 GEMMD_WGMMA_ALL_WORDS_16, GEMMD_WGMMA_WORDS_2
#define GEMMD_WGMMA_ALL_WORDS_32 GEMMD_WGMMA_ALL_WORDS_24, GEMMD_WGMMA_WORDS_3
#define GEMMD_WGMMA_ALL_WORDS_40 GEMMD_WGMMA_ALL_WORDS_32, GEMMD_WGMMA_WORDS_4
#define GEMMD_WGMMA_ALL_WORDS_48 GEMMD_WGMMA_ALL_WORDS_40, GEMMD_WGMMA_WORDS_5
#define GEMMD_WGMMA_ALL_WORDS_56 GEMMD_WGMMA_ALL_WORDS_48, GEMMD_WGMMA_WORDS_6
#define GEMMD_WGMMA_ALL_WORDS_64 GEMMD_WGMMA_ALL_WORDS_56, GEMMD_WGMMA_WORDS_7
#define GEMMD_WGMMA_ALL_WORDS_72 GEMMD_WGMMA_ALL_WORDS_64, GEMMD_WGMMA_WORDS_8
#define GEMMD_WGMMA_ALL_WORDS_80 GEMMD_WGMMA_ALL_WORDS_72, GEMMD_WGMMA_WORDS_9
#define GEMMD_WGMMA_ALL_WORDS_88 GEMMD_WGMMA_ALL_WORDS_80, GEMMD_WGMMA_WORDS_10
#define GEMMD_WGMMA_ALL_WORDS_96 GEMMD_WGMMA_ALL_WORDS_88, GEMMD_WGMMA_WORDS_11
#define GEMMD_WGMMA_ALL_WORDS_104 GEMMD_WGMMA_ALL_WORDS_96, GEMMD_WGMMA_WORDS_12
#define GEMMD_WGMMA_ALL_WORDS_112 GEMMD_WGMMA_ALL_WORDS_104, GEMMD_WGMMA_WORDS_13
#define GEMMD_WGMMA_ALL_WORDS_120 GEMMD_WGMMA_ALL_WORDS_112, GEMMD_WGMMA_WORDS_14
#define GEMMD_WGMMA_ALL_WORDS_128 GEMMD_WGMMA_ALL_WORDS_120, GEMMD_WGMMA_WORDS_15

// Calls f(n, 2 * n, ...) for each n, with the names of the seven operands that follow n / 2
// registers: of n columns in f32, or of 2 * n in f16.
#define GEMMD_WGMMA_EACH_TO_128(f)                                                                 \
  f(8, 16, "%4", "%5", "%6", "%7", "%8", "%9", "%10") f(                                           \
      16, 32, "%8", "%9", "%10", "%11", "%12", "%13",                                              \
      "%14") f(24, 48, "%12", "%13", "%14", "%15", "%16", "%17",                                   \
               "%18") f(32, 64, "%16", "%17", "%18", "%19", "%20", "%21",                          \
                        "%22") f(40, 80, "%20", "%21", "%22", "%23", "%24", "%25",                 \
                                 "%26") f(48, 96, "%24", "%25", "%26", "%27", "%28", "%29", "%30") \
      f(56, 112, "%28", "%29", "%30", "%31", "%32", "%33", "%34")                                  \
          f(64, 128, "%32", "%33", "%34", "%35", "%36", "%37", "%38")                              \
              f(72, 144, "%36", "%37", "%38", "%39", "%40", "%41", "%42")                          \
                  f(80, 160, "%40", "%41", "%42", "%43", "%44", "%45", "%46")                      \
                      f(88, 176, "%44", "%45", "%46", "%47", "%48", "%49", "%50")                  \
                          f(96, 192, "%48", "%49", "%50", "%51", "%52", "%53", "%54")              \
                              f(104, 208, "%52", "%53", "%54", "%55", "%56", "%57", "%58")         \
                                  f(112, 224, "%56", "%57", "%58", "%59", "%60", "%61", "%62") f(  \
                                      120, 240, "%60", "%61", "%62", "%63", "%64", "%65", "%66")   \
                                      f(128, 256, "%64", "%65", "%66", "%67", "%68", "%69", "%70")
#define GEMMD_WGMMA_EACH_ABOVE_128(f)                                                             \
  f(136, 272, "%68", "%69", "%70", "%71", "%72", "%73", "%74") f(                                 \
      144, 288, "%72", "%73", "%74", "%75", "%76", "%77",                                         \
      "%78") f(152, 304, "%76", "%77", "%78", "%79", "%80", "%81",                                \
               "%82") f(160, 320, "%80", "%81", "%82", "%83", "%84", "%85",                       \
                        "%86") f(168, 336, "%84", "%85", "%86", "%87", "%88", "%89", "%90")       \
      f(176, 352, "%88", "%89", "%90", "%91", "%92", "%93",                                       \
        "%94") f(184, 368, "%92", "%93", "%94", "%95", "%96", "%97",                              \
                 "%98") f(192, 384, "%96", "%97", "%98", "%99", "%100", "%101", "%102")           \
          f(200, 400, "%100", "%101", "%102", "%103", "%104", "%105",                             \
            "%106") f(208, 416, "%104", "%105", "%106", "%107", "%108", "%109",                   \
                      "%110") f(216, 432, "%108", "%109", "%110", "%111", "%112", "%113", "%114") \
              f(224, 448, "%112", "%113", "%114", "%115", "%116", "%117", "%118")                 \
                  f(232, 464, "%116", "%117", "%118", "%119", "%120", "%121", "%122")             \
                      f(240, 480, "%120", "%121", "%122", "%123", "%124", "%125", "%126")         \
                          f(248, 496, "%124", "%125", "%126", "%127", "%128", "%129", "%130")     \
                              f(256, 512, "%128", "%129", "%130", "%131", "%132", "%133", "%134")
