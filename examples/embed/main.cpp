// C++: a small class over the buffers of bayplan.h. Halide::Runtime::Buffer fits as well.
#include "sharpen.h"

#include <cstdio>
#include <vector>

class Image {
public:
    Image(int width, int height)
        : pixels_(static_cast<size_t>(width) * height), dims_{{0, width, 1, 0}, {0, height, width, 0}} {
        buffer_.host = reinterpret_cast<uint8_t *>(pixels_.data());
        buffer_.type = {BP_FLOAT, 32, 1};
        buffer_.dimensions = 2;
        buffer_.dim = dims_;
    }
    Image(const Image &) = delete;
    Image &operator=(const Image &) = delete;

    float &operator()(int x, int y) { return pixels_[static_cast<size_t>(y) * dims_[1].stride + x]; }
    bp_buffer *buffer() { return &buffer_; }

private:
    std::vector<float> pixels_;
    bp_dim dims_[2];
    bp_buffer buffer_ = {};
};

int main() {
    Image in(32, 8), out(32, 8);
    for (int y = 0; y < 8; y++)
        for (int x = 16; x < 32; x++) in(x, y) = 1.0f;

    // How many bytes the call will need, before it.
    std::vector<unsigned char> workspace(
        sharpen_workspace_bytes(in.buffer(), 1.0f, out.buffer()) + sharpen_WORKSPACE_ALIGN);
    const int status = sharpen_with_workspace(in.buffer(), 1.0f, out.buffer(), workspace.data(),
                                              workspace.size());
    std::printf("sharpen %.2f %.2f\n", out(15, 3), out(16, 3));
    return status;
}
