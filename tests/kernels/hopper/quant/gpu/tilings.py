"""The tilings of kernels/hopper/quant/tilings.h: rows of A and lines of W that a block has, and blocks of a
multiprocessor. By a format's letter those for few rows; those for any number of rows; bytes of 16 lines by 128 of K."""
FEW = {"": [(1, 64, 2), (1, 32, 2), (1, 16, 1), (1, 64, 1), (8, 64, 2), (8, 32, 2), (8, 16, 1), (16, 64, 2), (16, 64, 1)],
       "m": [(1, 64, 2), (8, 64, 2), (16, 64, 2)],
       "n": [(1, 64, 2), (8, 64, 2), (16, 64, 2)],
       "i": [(1, 64, 2), (1, 32, 2), (1, 16, 1), (1, 64, 1), (8, 64, 2), (8, 32, 2), (16, 64, 2), (16, 32, 2)]}
FEW["e"] = FEW["i"]
WIDE = [(64, 64, 1), (64, 256, 1), (128, 128, 1), (128, 256, 1), (128, 256, 1), (16, 128, 2)]
WIDE_CLUSTERS = [2, 2, 2, 1, 2, 1]  # of blocks
UNIT_BYTES = {"": 1056, "m": 1088, "n": 1152, "i": 2112, "e": 2112}
