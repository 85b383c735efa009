// The coefficients of a JPEG of several scans (a progressive one), which libjpeg keeps whole until
// the last scan has been read. Kept here, their memory is known before it is taken, and goes back
// to the kernel row by row while the points are made of them: a decoder holds either the
// coefficients or the points, and not both.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>

// It needs size_t and FILE.
#include <jpeglib.h>

namespace spillway {

// What they take of a picture whose header was read; 0 of one with a single scan.
uint64_t JpegCoefficientBytes(const jpeg_decompress_struct& info);

// Makes the object's memory manager keep its coefficients here. Call it after
// jpeg_create_decompress; they go with jpeg_destroy_decompress. Memory that cannot be had is
// libjpeg's own error (JERR_OUT_OF_MEMORY).
void KeepJpegCoefficients(jpeg_decompress_struct* info);

}  // namespace spillway
