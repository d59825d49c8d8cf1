/* The part of the CUDA driver's interface and of NVRTC that is used, declared here. */
#ifndef BAYPLAN_CUDA_H
#define BAYPLAN_CUDA_H

#include <stddef.h>
#include <stdint.h>

typedef int CUresult;
typedef int CUdevice;
typedef uint64_t CUdeviceptr;
typedef struct CUctx_st *CUcontext;
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;
typedef struct _nvrtcProgram *nvrtcProgram;

enum {
    CUDA_SUCCESS = 0,
    CUDA_ERROR_OUT_OF_MEMORY = 2,
    CUDA_ERROR_NOT_READY = 600,
    CU_MAX_THREADS_PER_BLOCK = 1,
    CU_MAX_BLOCK_DIM_X = 2, /* y 3, z 4 */
    CU_MAX_GRID_DIM_X = 5,  /* y 6, z 7 */
    CU_MAX_SHARED_MEMORY_PER_BLOCK = 8,
    CU_WARP_SIZE = 10,
    CU_COMPUTE_CAPABILITY_MAJOR = 75,
    CU_COMPUTE_CAPABILITY_MINOR = 76,
    CU_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN = 97,
    CU_FUNC_MAX_THREADS_PER_BLOCK = 0,
    CU_FUNC_SHARED_SIZE_BYTES = 1,
    CU_FUNC_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8,
    CU_EVENT_DISABLE_TIMING = 2,
    CU_JIT_ERROR_LOG_BUFFER = 5,
    CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES = 6
};

enum { CU_MEMORYTYPE_HOST = 1, CU_MEMORYTYPE_DEVICE = 2 };
typedef struct CUDA_MEMCPY2D {
    size_t srcXInBytes, srcY;
    unsigned srcMemoryType;
    const void *srcHost;
    CUdeviceptr srcDevice;
    void *srcArray;
    size_t srcPitch;
    size_t dstXInBytes, dstY;
    unsigned dstMemoryType;
    void *dstHost;
    CUdeviceptr dstDevice;
    void *dstArray;
    size_t dstPitch;
    size_t WidthInBytes, Height;
} CUDA_MEMCPY2D;

/* member, name in the library, parameters; all give a CUresult */
#define BP_CUDA_FUNCTIONS(F)                                                                       \
    F(init, cuInit, (unsigned))                                                                    \
    F(driver_version, cuDriverGetVersion, (int *))                                                 \
    F(device_count, cuDeviceGetCount, (int *))                                                     \
    F(device, cuDeviceGet, (CUdevice *, int))                                                      \
    F(device_name, cuDeviceGetName, (char *, int, CUdevice))                                       \
    F(device_attribute, cuDeviceGetAttribute, (int *, int, CUdevice))                              \
    F(device_bytes, cuDeviceTotalMem_v2, (size_t *, CUdevice))                                     \
    F(retain_context, cuDevicePrimaryCtxRetain, (CUcontext *, CUdevice))                           \
    F(release_context, cuDevicePrimaryCtxRelease_v2, (CUdevice))                                   \
    F(push, cuCtxPushCurrent_v2, (CUcontext))                                                      \
    F(pop, cuCtxPopCurrent_v2, (CUcontext *))                                                      \
    F(allocate, cuMemAlloc_v2, (CUdeviceptr *, size_t))                                            \
    F(free, cuMemFree_v2, (CUdeviceptr))                                                           \
    F(copy_in, cuMemcpyHtoDAsync_v2, (CUdeviceptr, const void *, size_t, CUstream))                \
    F(copy_out, cuMemcpyDtoHAsync_v2, (void *, CUdeviceptr, size_t, CUstream))                     \
    F(copy_rows, cuMemcpy2DAsync_v2, (const CUDA_MEMCPY2D *, CUstream))                            \
    F(load, cuModuleLoadDataEx, (CUmodule *, const void *, unsigned, int *, void **))              \
    F(unload, cuModuleUnload, (CUmodule))                                                          \
    F(function, cuModuleGetFunction, (CUfunction *, CUmodule, const char *))                       \
    F(set_attribute, cuFuncSetAttribute, (CUfunction, int, int))                                   \
    F(get_attribute, cuFuncGetAttribute, (int *, int, CUfunction))                                 \
    F(launch, cuLaunchKernel,                                                                      \
      (CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CUstream, \
       void **, void **))                                                                          \
    F(synchronize, cuStreamSynchronize, (CUstream))                                                \
    F(wait_event, cuStreamWaitEvent, (CUstream, CUevent, unsigned))                                \
    F(new_event, cuEventCreate, (CUevent *, unsigned))                                             \
    F(record, cuEventRecord, (CUevent, CUstream))                                                  \
    F(query, cuEventQuery, (CUevent))                                                              \
    F(wait, cuEventSynchronize, (CUevent))                                                         \
    F(drop_event, cuEventDestroy_v2, (CUevent))                                                    \
    F(error_name, cuGetErrorName, (CUresult, const char **))                                       \
    F(error_text, cuGetErrorString, (CUresult, const char **))

#define BP_NVRTC_FUNCTIONS(F)                                                                      \
    F(version, nvrtcVersion, (int *, int *))                                                       \
    F(create, nvrtcCreateProgram,                                                                  \
      (nvrtcProgram *, const char *, const char *, int, const char *const *, const char *const *)) \
    F(compile, nvrtcCompileProgram, (nvrtcProgram, int, const char *const *))                      \
    F(destroy, nvrtcDestroyProgram, (nvrtcProgram *))                                              \
    F(log_bytes, nvrtcGetProgramLogSize, (nvrtcProgram, size_t *))                                 \
    F(log, nvrtcGetProgramLog, (nvrtcProgram, char *))                                             \
    F(ptx_bytes, nvrtcGetPTXSize, (nvrtcProgram, size_t *))                                        \
    F(ptx, nvrtcGetPTX, (nvrtcProgram, char *))

#define BP_MEMBER(member, name, parameters) CUresult(*member) parameters;
typedef struct bp_cuda {
    BP_CUDA_FUNCTIONS(BP_MEMBER)
} bp_cuda;
typedef struct bp_nvrtc {
    BP_NVRTC_FUNCTIONS(BP_MEMBER)
    const char *path;
} bp_nvrtc;
#undef BP_MEMBER

/* cuda_loader.c: 0 where something is missing; the report says what was tried. */
int bp_load_cuda(bp_cuda *out, bp_text *report);
int bp_load_nvrtc(bp_nvrtc *out, bp_text *report);

#endif
