/* The part of OpenCL 1.2 that is used, declared here so that no header of it is needed. */
#ifndef BAYPLAN_OPENCL_H
#define BAYPLAN_OPENCL_H

#include <stddef.h>
#include <stdint.h>

typedef struct _cl_platform_id *cl_platform_id;
typedef struct _cl_device_id *cl_device_id;
typedef struct _cl_context *cl_context;
typedef struct _cl_command_queue *cl_command_queue;
typedef struct _cl_mem *cl_mem;
typedef struct _cl_program *cl_program;
typedef struct _cl_kernel *cl_kernel;
typedef struct _cl_event *cl_event;
typedef int32_t cl_int;
typedef uint32_t cl_uint;
typedef uint64_t cl_bitfield;

enum {
    CL_SUCCESS = 0,
    CL_DEVICE_NOT_FOUND = -1,
    CL_PLATFORM_NOT_FOUND_KHR = -1001,
    CL_PLATFORM_VERSION = 0x0901,
    CL_PLATFORM_NAME = 0x0902,
    CL_DEVICE_TYPE = 0x1000,
    CL_DEVICE_MAX_WORK_GROUP_SIZE = 0x1004,
    CL_DEVICE_MAX_WORK_ITEM_SIZES = 0x1005,
    CL_DEVICE_GLOBAL_MEM_SIZE = 0x101F,
    CL_DEVICE_LOCAL_MEM_SIZE = 0x1023,
    CL_DEVICE_NAME = 0x102B,
    CL_MEM_READ_WRITE = 1,
    CL_PROGRAM_BUILD_LOG = 0x1183,
    CL_KERNEL_NUM_ARGS = 0x1191,
    CL_KERNEL_WORK_GROUP_SIZE = 0x11B0,
    CL_EVENT_COMMAND_EXECUTION_STATUS = 0x11D3,
    CL_DEVICE_TYPE_CPU = 2,
    CL_DEVICE_TYPE_GPU = 4,
    CL_DEVICE_TYPE_ACCELERATOR = 8,
    CL_ICDL_VERSION = 2,
    CL_ICDL_NAME = 3
};
#define CL_DEVICE_TYPE_ALL 0xFFFFFFFFu

/* name, result, parameters */
#define BP_OPENCL_FUNCTIONS(F)                                                                     \
    F(clGetPlatformIDs, cl_int, (cl_uint, cl_platform_id *, cl_uint *))                            \
    F(clGetPlatformInfo, cl_int, (cl_platform_id, cl_uint, size_t, void *, size_t *))              \
    F(clGetDeviceIDs, cl_int,                                                                      \
      (cl_platform_id, cl_bitfield, cl_uint, cl_device_id *, cl_uint *))                           \
    F(clGetDeviceInfo, cl_int, (cl_device_id, cl_uint, size_t, void *, size_t *))                  \
    F(clCreateContext, cl_context,                                                                 \
      (const intptr_t *, cl_uint, const cl_device_id *, void *, void *, cl_int *))                 \
    F(clRetainContext, cl_int, (cl_context))                                                       \
    F(clReleaseContext, cl_int, (cl_context))                                                      \
    F(clCreateCommandQueue, cl_command_queue, (cl_context, cl_device_id, cl_bitfield, cl_int *))   \
    F(clRetainCommandQueue, cl_int, (cl_command_queue))                                            \
    F(clReleaseCommandQueue, cl_int, (cl_command_queue))                                           \
    F(clCreateBuffer, cl_mem, (cl_context, cl_bitfield, size_t, void *, cl_int *))                 \
    F(clReleaseMemObject, cl_int, (cl_mem))                                                        \
    F(clEnqueueReadBuffer, cl_int,                                                                 \
      (cl_command_queue, cl_mem, cl_uint, size_t, size_t, void *, cl_uint, const cl_event *,       \
       cl_event *))                                                                                \
    F(clEnqueueWriteBuffer, cl_int,                                                                \
      (cl_command_queue, cl_mem, cl_uint, size_t, size_t, const void *, cl_uint,                   \
       const cl_event *, cl_event *))                                                              \
    F(clEnqueueReadBufferRect, cl_int,                                                             \
      (cl_command_queue, cl_mem, cl_uint, const size_t *, const size_t *, const size_t *, size_t,  \
       size_t, size_t, size_t, void *, cl_uint, const cl_event *, cl_event *))                     \
    F(clEnqueueWriteBufferRect, cl_int,                                                            \
      (cl_command_queue, cl_mem, cl_uint, const size_t *, const size_t *, const size_t *, size_t,  \
       size_t, size_t, size_t, const void *, cl_uint, const cl_event *, cl_event *))               \
    F(clCreateProgramWithSource, cl_program,                                                       \
      (cl_context, cl_uint, const char **, const size_t *, cl_int *))                              \
    F(clBuildProgram, cl_int,                                                                      \
      (cl_program, cl_uint, const cl_device_id *, const char *, void *, void *))                   \
    F(clGetProgramBuildInfo, cl_int,                                                               \
      (cl_program, cl_device_id, cl_uint, size_t, void *, size_t *))                               \
    F(clReleaseProgram, cl_int, (cl_program))                                                      \
    F(clCreateKernel, cl_kernel, (cl_program, const char *, cl_int *))                             \
    F(clReleaseKernel, cl_int, (cl_kernel))                                                        \
    F(clGetKernelInfo, cl_int, (cl_kernel, cl_uint, size_t, void *, size_t *))                     \
    F(clGetKernelWorkGroupInfo, cl_int,                                                            \
      (cl_kernel, cl_device_id, cl_uint, size_t, void *, size_t *))                                \
    F(clSetKernelArg, cl_int, (cl_kernel, cl_uint, size_t, const void *))                          \
    F(clEnqueueNDRangeKernel, cl_int,                                                              \
      (cl_command_queue, cl_kernel, cl_uint, const size_t *, const size_t *, const size_t *,       \
       cl_uint, const cl_event *, cl_event *))                                                     \
    F(clEnqueueMarkerWithWaitList, cl_int,                                                         \
      (cl_command_queue, cl_uint, const cl_event *, cl_event *))                                   \
    F(clFlush, cl_int, (cl_command_queue))                                                         \
    F(clFinish, cl_int, (cl_command_queue))                                                        \
    F(clWaitForEvents, cl_int, (cl_uint, const cl_event *))                                        \
    F(clGetEventInfo, cl_int, (cl_event, cl_uint, size_t, void *, size_t *))                       \
    F(clRetainEvent, cl_int, (cl_event))                                                           \
    F(clReleaseEvent, cl_int, (cl_event))

typedef struct bp_opencl {
#define BP_FIELD(name, result, parameters) result(*name) parameters;
    BP_OPENCL_FUNCTIONS(BP_FIELD)
#undef BP_FIELD
    const char *path; /* of the loader */
} bp_opencl;

/* A device that was chosen, and the loader that found it. */
typedef struct bp_opencl_choice {
    bp_opencl *cl;
    cl_platform_id platform;
    cl_device_id device;
} bp_opencl_choice;

/* opencl_loader.c: whether there is a device; what was found and where was looked in any case. */
int bp_choose_opencl(bp_opencl_choice *out, bp_text *report);
/* The text of an information about a device, "" where there is none. */
void bp_opencl_device_text(const bp_opencl *cl, cl_device_id device, char out[256]);

#endif
