// Stores the coefficients of a JPEG with several scans (a progressive one), which libjpeg keeps
// until it has read the last scan. Here the size of their memory is known in advance, and it is
// returned to the kernel row by row while points are computed: a decoder holds either the
// coefficients or the points, and not both.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>

// jpeglib.h needs size_t and FILE.
#include <jpeglib.h>

namespace spillway {

// Bytes of a picture's coefficients, after its header was read; 0 for a single scan.
uint64_t JpegCoefficientBytes(const jpeg_decompress_struct& info);

// Makes the object's memory manager store its coefficients here. Call after jpeg_create_decompress;
// jpeg_destroy_decompress frees them. A failed allocation is libjpeg's own error
// (JERR_OUT_OF_MEMORY).
void KeepJpegCoefficients(jpeg_decompress_struct* info);

}  // namespace spillway
