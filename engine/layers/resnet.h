// A residual network that classifies pictures, as a Model. Parameters and buffers have
// transformers' names and shapes (ResNetForImageClassification), so trained weights load there.
//
//   embedder    pictures [samples, channels, height, width] -> a convolution of 7 x 7, its batch
//               norm and the activation, and the largest of each 3 x 3: sides are quartered
//   stages.i.j  activation(layer(x) + shortcut(x))
//   classifier  the mean over each picture, and scores [samples, labels] of it
//   loss        engine/layers/label_loss.h
//
// A batch norm in training uses the mean and the variance of its micro-batch, and moves the running
// ones by a tenth (the variance over n - 1), once a micro-batch; evaluation uses the running ones.
// All are in fp32, also in 16-bit runs. As in torch, results depend on the size of the micro-batch;
// each of several ranks has its own statistics.
#pragma once

#include "absl/status/statusor.h"
#include "engine/families/resnet_config.h"
#include "engine/torch/model.h"

namespace spillway {

// InvalidArgument for a config that was made in code and contradicts itself.
absl::StatusOr<Model> BuildResNet(const ResNetConfig& config);

}  // namespace spillway
