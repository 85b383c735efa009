// The public interface for models: a model, its data and its loss, trained by the swap engine. The
// engine knows nothing else about a model.
//
//   A model is a list of units (layers) and a loss unit that ends it. A unit declares its
//   parameters and computes a forward; it owns no tensors. The engine keeps the parameters where
//   the plan says, fetches them before the unit needs them, runs forwards and recomputed backwards
//   unit by unit, and updates each unit's state tile by tile.
//
// A unit must be a pure function of (parameters, input, context). The engine may call it several
// times for one input (recompute), and each call must compute the same bits. Therefore a unit
// changes no argument in place except buffers, and draws random numbers only from its context, not
// from LibTorch. State that the forward changes (BatchNorm's running statistics) is declared as
// buffers; the context provides them. Buffers change once for each micro-batch, and a recompute
// gets the values that the first forward started with.
//
// Before step 1 a dry run computes the first micro-batch (or Dataset::Largest). Its weights come
// from each parameter's Init, whatever weights are given: large parameters repeat their first
// 65,521 values, packed ones are zero. The loss of the dry run may have any value.
//
// Threads: the engine makes all calls from the compute thread. Errors: an exception thrown by a
// unit, a loss or a dataset ends the run with kInternal and its message; methods of UnitContext
// throw c10::Error if their arguments violate what their comments require.
//
// Examples: examples/train_cnn.cc (two pages), examples/train_resnet_cifar.cc (with buffers).
//
// Large because it is all that the author of a model has to know, in one file.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <typeinfo>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/machine/compute_precision.h"
#include "engine/model/parameter.h"
#include "engine/numeric/packed_matrix.h"
#include "engine/numeric/quality.h"

namespace spillway {

// A parameter of another unit that this unit also reads (a tied weight). The gradients of both uses
// are summed in fp32 and rounded once.
struct BorrowedParameter {
  int unit = 0;       // position in Model::units
  int parameter = 0;  // position in that unit's parameters()
};

// One micro-batch.
struct Batch {
  torch::Tensor inputs;  // [samples, ...]
  torch::Tensor labels;  // [samples, ...] int64, or fp32 for regression
  // Other tensors of the samples by name (masks, the other side of a pair); [samples, ...].
  std::map<std::string, torch::Tensor> fields = {};
  // Packed samples: lengths of the texts in all samples, in order; the lengths of a sample sum to
  // its row. Texts do not attend to each other. Empty: every sample is one text.
  std::vector<int64_t> texts = {};
  // Number of tokens that the model reads in all samples, without padding; 0 if it reads no tokens.
  // Used for metrics only.
  int64_t tokens = 0;

  // The field of this name. Throws if there is none.
  const torch::Tensor& field(const std::string& name) const;
};

// A LoRA adapter of a frozen matrix W: products with W use W + scale * B A.
struct LinearAdapter {
  torch::Tensor weight;  // W
  // Linear: A [rank, in], B [out, rank]. Convolution: A [rank, in, h, w], B [out, rank, 1, 1].
  torch::Tensor a, b;
  double scale = 1;
  double dropout = 0;  // probability, applied to A's input
  int site = 0;        // site of that dropout, see UnitContext::Dropout
};

// A frozen matrix that is kept quantised (--base-dtype).
struct PackedMatrix {
  torch::Tensor stand_in;  // the unit's parameter: the matrix's shape, filled with NaN
  torch::Tensor bytes;     // [shape.bytes()] uint8
  PackedShape shape;       // [out, in]
};

// Everything besides its input that a forward may use.
class UnitContext {
 public:
  // `samples` has the number of each sample of the micro-batch within the global batch.
  UnitContext(uint64_t seed, int64_t step, int unit, std::vector<int64_t> samples, bool training,
              Products products = {})
      : seed_(seed),
        step_(step),
        unit_(unit),
        samples_(std::move(samples)),
        training_(training),
        products_(products) {}

  // False in evaluation and generation.
  bool training() const { return training_; }

  // torch::linear: x [..., in] @ weight [out, in]^T + bias [out] -> [..., out]; an undefined bias
  // is none. All have one dtype; weight may have any strides. The product and its gradients use
  // the precision of --compute (fp8 excludes packed matrices and adapters); a unit that calls
  // torch::linear itself multiplies in its tensors' dtype. The result includes the adapter of
  // `weight`, if there is one; if that has dropout, the first dimension of x must be samples. For
  // a packed matrix, `weight` only identifies it, and this method is the only way to multiply by
  // it: the whole matrix, not a part. Throws if the shapes do not match.
  torch::Tensor Linear(const torch::Tensor& x, const torch::Tensor& weight,
                       const torch::Tensor& bias = {}) const;

  // torch::conv2d without bias: x [samples, in, height, width], weight [out, in, h, w], with
  // `padding` zeros on every side. Precision and adapter as in Linear.
  torch::Tensor Convolve(const torch::Tensor& x, const torch::Tensor& weight, int64_t stride,
                         int64_t padding) const;

  // Adds a loss of the unit, for example to balance a router: one fp32 number, differentiable in
  // all that Forward is. It is added to LossSum of the same micro-batch, divided by the step's
  // labels and scaled with it, so multiply a mean by labels() first. A recomputed forward must add
  // the same value. In evaluation it is part of the loss too. Throws if it is not one fp32 number.
  void AddLoss(const torch::Tensor& loss) const;

  // Number of labels of the micro-batch that count in its loss.
  int64_t labels() const { return labels_; }

  // Whether products use fp32 although tensors have 16 bits; for products outside of Linear.
  bool fp32_products() const { return products_.in_fp32; }

  // Batch::field of the micro-batch. Throws if there is none of this name.
  const torch::Tensor& field(const std::string& name) const;

  // The outputs of the units that Unit::reads() names, in its order. Differentiable.
  const std::vector<torch::Tensor>& values() const { return values_; }

  // The buffers that Unit::buffers() declares, in its order, fp32. A training forward may change
  // them in place, micro-batch by micro-batch in order. A recompute gets copies of the values that
  // the first forward started with, and its changes are discarded. In evaluation they are
  // read-only. With several ranks, all take the first rank's values after a step.
  const std::vector<torch::Tensor>& buffers() const { return buffers_; }
  UnitContext WithBuffers(std::vector<torch::Tensor> buffers) const {
    UnitContext with = *this;
    with.buffers_ = std::move(buffers);
    return with;
  }

  // A copy that appends the losses of AddLoss to `losses`; without it they are dropped.
  UnitContext WithLosses(std::vector<torch::Tensor>* losses, int64_t labels) const {
    UnitContext with = *this;
    with.losses_ = losses;
    with.labels_ = labels;
    return with;
  }

  // A copy with adapters for some of the unit's matrices.
  UnitContext WithAdapters(std::vector<LinearAdapter> adapters) const {
    UnitContext with = *this;
    with.adapters_ = std::move(adapters);
    return with;
  }

  // A copy with some of the unit's matrices packed.
  UnitContext WithPacked(std::vector<PackedMatrix> packed) const {
    UnitContext with = *this;
    with.packed_ = std::move(packed);
    return with;
  }

  // A copy with the micro-batch and the values that the unit reads. `batch` outlives the copy;
  // null: there are no fields.
  UnitContext With(const Batch* batch, std::vector<torch::Tensor> values) const {
    UnitContext with = *this;
    with.batch_ = batch;
    with.values_ = std::move(values);
    return with;
  }
  const Batch* batch() const { return batch_; }

  // Batch::texts of the micro-batch; empty without a batch.
  const std::vector<int64_t>& texts() const;

  // A copy for x [1, ...] that holds only the `row`-th sample.
  UnitContext ForSample(int64_t row) const;

  // Dropout on x [samples, ...] of a floating dtype with probability p in [0, 1); the identity in
  // evaluation. Masks are keyed by (seed, step, sample, unit, site): equal in a recompute and in
  // every placement. `site` distinguishes the dropouts of one unit. The result has x's shape and
  // dtype; kept elements are scaled by 1 / (1 - p) and rounded once. Saves nothing for backward.
  // Throws if the first dimension of x is not samples, or p is out of range.
  torch::Tensor Dropout(const torch::Tensor& x, double p, int site) const;

  // 64 random bits for the `row`-th sample of the micro-batch, keyed like a mask of Dropout and by
  // `index`; for other random choices of a unit.
  uint64_t RandomBits(int64_t row, int site, uint64_t index) const;

  // Number of each sample of the micro-batch within the global batch.
  const std::vector<int64_t>& samples() const { return samples_; }

 private:
  uint64_t seed_;
  int64_t step_;
  int unit_;
  std::vector<int64_t> samples_;
  bool training_;
  Products products_;
  const Batch* batch_ = nullptr;
  std::vector<torch::Tensor> values_;
  std::vector<torch::Tensor> buffers_;
  std::vector<LinearAdapter> adapters_;
  std::vector<PackedMatrix> packed_;
  std::vector<torch::Tensor>* losses_ = nullptr;
  int64_t labels_ = 0;
};

// Progress of a text during generation: the unit gets positions [first, first + T) and has seen
// all earlier ones.
struct TextPosition {
  int64_t first = 0;
  // The unit's cache: [source + positions, KeptPerPosition()] in the run's dtype. Rows before
  // source + first are as the unit left them. Undefined if KeptPerPosition() is 0.
  torch::Tensor kept;
  // Number of encoder positions of the text's source, for a model with an encoder. The encoder's
  // output [1, source, ...] is among the context's values if first is 0, and undefined later. The
  // unit then fills the first `source` rows of `kept` with what it needs of the source.
  int64_t source = 0;
};

// A layer: parameters and a forward. Stateless; see the requirements at the top of this file.
class Unit {
 public:
  virtual ~Unit() = default;

  // Name in plans and messages, for example "h.3".
  virtual std::string name() const = 0;

  // Units of one kind take the same time and memory, and have outputs of the same shapes, if their
  // parameters and inputs have the same shapes. One unit of each kind is measured before step 1.
  virtual std::string kind() const { return typeid(*this).name(); }

  // The unit's own parameters, in the order in which Forward receives them. A unit may have none,
  // but the model must have some. A parameter that no gradient reaches has a gradient of zeros, so
  // weight decay and moments change it; torch's optimizers would skip it.
  virtual std::vector<ParameterSpec> parameters() const = 0;

  // Parameters of other units that Forward receives after the unit's own.
  virtual std::vector<BorrowedParameter> borrowed() const { return {}; }

  // Buffers, committed and exported with the parameters. Keep them small: the manifest of a commit
  // holds them.
  virtual std::vector<BufferSpec> buffers() const { return {}; }

  // Source of Forward's x: the name of a batch field; "": the output of the previous unit, or the
  // batch's inputs for the first unit.
  virtual std::string input() const { return ""; }

  // Positions of earlier units whose outputs Forward also reads, as UnitContext::values(). Such an
  // output stays on the device until its own unit's backward. The gradients of its readers are
  // summed in fp32, the last unit's first, and rounded once.
  virtual std::vector<int> reads() const { return {}; }

  // Position of the own parameter of which Forward reads only the rows numbered by x (int64), like
  // a token embedding; the parameter has rows. -1: Forward reads all of every parameter. If the
  // first unit has one, a step can start before the rest of that parameter is updated.
  virtual int looks_up() const { return -1; }

  // The unit's output. `parameters`: own, then borrowed, in the run's dtype (bf16, fp16 or fp32).
  // `x`: see input(), first dimension samples. Tensors of the dataset have the dtype that it gave
  // them; cast floating inputs to parameters[0].dtype(). Differentiable in parameters and x.
  virtual torch::Tensor Forward(const UnitContext& context,
                                const std::vector<torch::Tensor>& parameters,
                                const torch::Tensor& x) const = 0;

  // --- Optional: generation with a key-value cache.

  // Number of elements that ForwardNext caches for each position (attention: key and value). 0:
  // none. Negative: ForwardNext is not implemented.
  virtual int64_t KeptPerPosition() const { return -1; }

  // Forward on the next T positions of one text: x [1, T, ...]; if input() is a field, x is the
  // tokens. Fills T rows of `at.kept`, starting at source + first. Not differentiated.
  virtual torch::Tensor ForwardNext(const UnitContext& context,
                                    const std::vector<torch::Tensor>& parameters,
                                    const torch::Tensor& x, const TextPosition& at) const {
    return {};
  }
};

// The last unit: from the last hidden state to the loss. It is called with chunks of rows, so the
// logits of a whole micro-batch never exist at once.
class LossUnit {
 public:
  virtual ~LossUnit() = default;

  // Name in plans and messages.
  virtual std::string name() const = 0;
  // Declares parameters like Unit::parameters. May be empty.
  virtual std::vector<ParameterSpec> parameters() const = 0;
  virtual std::vector<BorrowedParameter> borrowed() const { return {}; }

  // The sum of the losses of the rows whose label is not kIgnoredLabel (of all rows for fp32
  // labels), as an fp32 scalar. labels [rows] are Batch::labels flattened; x [rows, features] is
  // the hidden state reshaped to [rows, -1]. Differentiable; it may be a constant if no label
  // counts.
  virtual torch::Tensor LossSum(const UnitContext& context,
                                const std::vector<torch::Tensor>& parameters,
                                const torch::Tensor& x, const torch::Tensor& labels) const = 0;

  // Optional, for generation: x [rows, features] -> logits [rows, classes].
  virtual torch::Tensor Logits(const UnitContext& context,
                               const std::vector<torch::Tensor>& parameters,
                               const torch::Tensor& x) const {
    return {};
  }

  // Optional, for evaluation: pairs of (prediction, label), [any, 2] fp32, for the rows of x. The
  // engine collects the pairs of all calls in order.
  virtual torch::Tensor Judge(const UnitContext& context,
                              const std::vector<torch::Tensor>& parameters, const torch::Tensor& x,
                              const torch::Tensor& labels) const {
    return {};
  }
  // Measures of an evaluation beside its mean loss, from all pairs of Judge.
  virtual std::vector<QualityMeasure> Quality(absl::Span<const Judgement> judgements,
                                              double loss) const {
    return {};
  }

  // Maximum rows of one LossSum call. It must depend on shapes only, never on budgets: another
  // split changes the bits of gradients.
  virtual int64_t ChunkRows() const { return 1024; }
};

inline constexpr int64_t kIgnoredLabel = -100;

struct Model {
  std::vector<std::shared_ptr<const Unit>> units;
  std::shared_ptr<const LossUnit> loss;
  // Number of leading units that form an encoder; 0: none. Other units read only the last encoder
  // unit's output (as a value), and parameters that they borrow. Generation uses the other units.
  int encoder_units = 0;
};

// Samples by number. The engine decides which samples make a step.
class Dataset {
 public:
  virtual ~Dataset() = default;

  // Number of samples in one epoch, at least 1.
  virtual int64_t size() const = 0;

  // The samples with these numbers, each in [0, size()).
  virtual absl::StatusOr<Batch> Get(absl::Span<const int64_t> samples) = 0;

  // Like Get, for training. Counting all samples drawn by the run, over epochs and ranks, these
  // have the numbers `first_draw` and following. A dataset that randomises samples, for example
  // masks tokens, must key its random numbers by these numbers only, so that a resumed run and
  // every rank get the same. Evaluation uses Get.
  virtual absl::StatusOr<Batch> Draw(absl::Span<const int64_t> samples, int64_t first_draw) {
    return Get(samples);
  }

  // Announces the next samples in their order. The dataset may start to read them on its own
  // thread.
  virtual void Prepare(absl::Span<const int64_t> samples) {}

  // A text that changes when the data changes; --resume compares it.
  virtual std::string fingerprint() const = 0;

  // For samples of different sizes: a micro-batch of `count` samples that needs as much memory as
  // any of this data and of the evaluation data. The plan is made for it. None: all samples have
  // one size.
  virtual absl::StatusOr<std::optional<Batch>> Largest(int64_t count) { return std::nullopt; }
};

}  // namespace spillway
