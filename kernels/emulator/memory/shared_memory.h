// ld.shared, st.shared, ldmatrix, stmatrix and cp.async, as kernels/ptx/ declares them.
#pragma once

#include <cstdint>

#include "kernels/emulator/machine/call_site.h"

namespace gemmd::emulator {

// The base of the running block's shared memory.
std::uint32_t SharedBase();

// `bytes` is the width of the access and its alignment.
void LoadShared(void* value, std::uint32_t address, std::uint32_t bytes, const CallSite& site);
void StoreShared(std::uint32_t address, const void* value, std::uint32_t bytes,
                 const CallSite& site);

// ld.shared::cluster and st.shared::cluster: `address` may be one of any block of the cluster, and
// `bytes` is the width of the access and its alignment.
void LoadSharedRemote(void* value, std::uint32_t address, std::uint32_t bytes,
                      const CallSite& site);
void StoreSharedRemote(std::uint32_t address, const void* value, std::uint32_t bytes,
                       const CallSite& site);

// ldmatrix.sync.aligned.m8n8.x4[.trans].b16: lane l gives the address of row l % 8 of matrix
// l / 8; registers[j] receives this lane's pair of matrix j.
void LoadMatrix(std::uint32_t (&registers)[4], std::uint32_t address, bool transpose,
                const CallSite& site);

// stmatrix.sync.aligned.m8n8.xN.b16: the reverse; of N matrices, lanes from 8 * N on give nothing.
void StoreMatrix(std::uint32_t address, const std::uint32_t* registers, std::uint32_t matrices,
                 const CallSite& site);

// cp.async of `size` (4, 8 or 16) bytes: the first `bytes` from the source, zeros after.
void CopyAsync(std::uint32_t destination, const void* source, std::uint32_t size,
               std::uint32_t bytes, const CallSite& site);
void CopyAsyncCommit(const CallSite& site);
// Until at most `groups` of the newest groups are pending.
void CopyAsyncWait(std::uint32_t groups, const CallSite& site);

}  // namespace gemmd::emulator
