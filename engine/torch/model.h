// The public header: bring any model, data and loss, and train it through the
// swap engine. Nothing in the engine knows more about a model than this.
//
//   A model is a list of units (layers) and a loss unit that ends it. A unit
//   declares its parameters and computes a forward; it owns no tensors. The
//   engine holds the parameters wherever the plan says, brings them before the
//   unit is needed, runs forwards and recomputed backwards unit by unit, and
//   updates each unit's state tile by tile.
//
// What a unit must be: a pure function of (parameters, input, context). It may
// be called several times for the same input (recompute) and must then compute
// the same bits: it changes nothing that it is given in place but buffers, and
// random numbers are the context's, not LibTorch's. State that changes in forward
// (BatchNorm's running statistics) is declared as buffers, which the context has:
// they change once a micro-batch, and a recompute gets them as the first forward
// found them.
//
// Before step 1 a dry run computes the first micro-batch (or Dataset::Largest)
// with weights of each parameter's Init (of large ones the first 65,521 values
// again and again; zero where packed), whatever weights are given. Its loss may be
// anything.
//
// examples/train_cnn.cc is a complete use in two pages, and
// examples/train_resnet_cifar.cc one with buffers. All calls come from the
// compute thread.
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

// A parameter of another unit that this unit reads too (a tied weight). Its
// gradients from both uses are summed in fp32 and rounded once.
struct BorrowedParameter {
  int unit = 0;       // position in Model::units
  int parameter = 0;  // position in that unit's parameters()
};

struct Batch {
  torch::Tensor inputs;  // [samples, ...]
  torch::Tensor labels;  // [samples, ...] int64, or fp32 where they are numbers
  // Whatever else a sample has (masks, the other side of a pair), by name; [samples, ...].
  std::map<std::string, torch::Tensor> fields = {};
  // Lengths of the texts that samples hold one after another, the first sample's first: each fills
  // its row. Nothing of one text reaches another. Empty: every sample is one text.
  std::vector<int64_t> texts = {};
  // Tokens that the model reads, in all samples together and without padding; 0 where it reads
  // something else. They are only counted.
  int64_t tokens = 0;

  // One of `fields`. Throws where there is none of the name.
  const torch::Tensor& field(const std::string& name) const;
};

// What is added to a product with a frozen matrix W: scale * B A, as if W were their sum.
struct LinearAdapter {
  torch::Tensor weight;  // W
  // [rank, in], [out, rank]; of a convolution [rank, in, h, w], [out, rank, 1, 1]
  torch::Tensor a, b;
  double scale = 1;
  double dropout = 0;  // of what A reads
  int site = 0;
};

// A frozen matrix that is kept packed (--base-dtype).
struct PackedMatrix {
  torch::Tensor stand_in;  // what the unit is given for it: its shape, and NaN everywhere
  torch::Tensor bytes;     // [shape.bytes()] uint8
  PackedShape shape;       // [out, in]
};

// What a forward may know besides its input.
class UnitContext {
 public:
  UnitContext(uint64_t seed, int64_t step, int unit, std::vector<int64_t> samples, bool training,
              Products products = {})
      : seed_(seed),
        step_(step),
        unit_(unit),
        samples_(std::move(samples)),
        training_(training),
        products_(products) {}

  bool training() const { return training_; }

  // x [..., in] @ weight [out, in]^T + bias [out] (undefined: none): torch::linear, but that it and
  // its gradients are multiplied in the precision of --compute (in fp8 not what is kept packed, and
  // no adapter). All of one dtype, weight of any strides. (A unit that calls torch::linear itself
  // is multiplied in its tensors' dtype.) The result has the part of an adapter of `weight`, where
  // there is one; if that has dropout, x's first dimension must be samples. Of a matrix that is
  // kept packed `weight` is but the name: this is the only way to multiply by it.
  torch::Tensor Linear(const torch::Tensor& x, const torch::Tensor& weight,
                       const torch::Tensor& bias = {}) const;

  // x [samples, in, height, width], weight [out, in, h, w]: torch::conv2d without a bias, with
  // `padding` zeros on all sides, multiplied as Linear is and with its adapter likewise.
  torch::Tensor Convolve(const torch::Tensor& x, const torch::Tensor& weight, int64_t stride,
                         int64_t padding) const;

  // A loss of the unit's own, such as how unevenly a router deals: one fp32 number, added to what
  // LossSum gives of the same micro-batch, divided by the step's labels and scaled with it. So a
  // mean is multiplied by labels() first. Differentiable in all that Forward is. A forward that is
  // computed anew must add the same. In evaluation it is part of the loss too.
  void AddLoss(const torch::Tensor& loss) const;

  // Labels of the micro-batch that count in its loss.
  int64_t labels() const { return labels_; }

  // Whether that is fp32 although tensors are of 16 bits: for a unit's other products.
  bool fp32_products() const { return products_.in_fp32; }

  // Batch::field of the micro-batch.
  const torch::Tensor& field(const std::string& name) const;

  // The outputs that Unit::reads() names, in its order. Differentiable.
  const std::vector<torch::Tensor>& values() const { return values_; }

  // Those that Unit::buffers() names, in its order. A training forward may change them in place,
  // micro-batch by micro-batch in order; one that is computed anew for the backward gets copies of
  // what the first one began with, so that it computes the same, and they are changed once. In
  // evaluation they are only read. Of several ranks the first one's are everybody's after a step.
  const std::vector<torch::Tensor>& buffers() const { return buffers_; }
  UnitContext WithBuffers(std::vector<torch::Tensor> buffers) const {
    UnitContext with = *this;
    with.buffers_ = std::move(buffers);
    return with;
  }

  // The same with a place for what AddLoss is given. Without one it is dropped.
  UnitContext WithLosses(std::vector<torch::Tensor>* losses, int64_t labels) const {
    UnitContext with = *this;
    with.losses_ = losses;
    with.labels_ = labels;
    return with;
  }

  // The same with adapters of some of the unit's matrices.
  UnitContext WithAdapters(std::vector<LinearAdapter> adapters) const {
    UnitContext with = *this;
    with.adapters_ = std::move(adapters);
    return with;
  }

  // The same with some of its matrices packed.
  UnitContext WithPacked(std::vector<PackedMatrix> packed) const {
    UnitContext with = *this;
    with.packed_ = std::move(packed);
    return with;
  }

  // The same with what the unit reads. `batch` outlives it; null: there are no fields.
  UnitContext With(const Batch* batch, std::vector<torch::Tensor> values) const {
    UnitContext with = *this;
    with.batch_ = batch;
    with.values_ = std::move(values);
    return with;
  }
  const Batch* batch() const { return batch_; }

  // Batch::texts of the micro-batch; empty where there is none.
  const std::vector<int64_t>& texts() const;

  // The same for x [1, ...], of which the `row`-th sample is all.
  UnitContext ForSample(int64_t row) const;

  // Dropout on x [samples, ...] with probability p; the identity in evaluation.
  // Masks are keyed by (seed, step, sample, unit, site): the same on recompute and
  // in any placement, different for everything else. `site` tells the dropouts of
  // one unit apart. Floating dtypes; result has x's shape and dtype, and is x scaled
  // by 1/(1-p), rounded once, where kept. Nothing is saved for backward.
  torch::Tensor Dropout(const torch::Tensor& x, double p, int site) const;

  // 64 random bits for the `row`-th sample of the micro-batch, keyed as a mask of Dropout, and by
  // `index`: for what else a unit draws.
  uint64_t RandomBits(int64_t row, int site, uint64_t index) const;

  // Numbers of the samples of this micro-batch within the global batch.
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

// Where a text stands while it is generated: a unit is given its positions
// [first, first + T) and has seen all before them.
struct TextPosition {
  int64_t first = 0;
  // [source + positions, KeptPerPosition()] in the run's dtype, the unit's own: rows before
  // source + first are as it left them. Undefined where it keeps nothing.
  torch::Tensor kept;
  // Of a model with an encoder: positions of what that has made of the text's source, [1, source,
  // ...]. It is among the context's values where first is 0, and undefined later: what a unit needs
  // of it it keeps in the first so many rows, which it fills then.
  int64_t source = 0;
};

class Unit {
 public:
  virtual ~Unit() = default;

  // Shown in plans and messages: "h.3".
  virtual std::string name() const = 0;

  // Units of one kind take the same time and memory, and give the same shapes, where their
  // parameters and what they read have the same shapes: one of them is measured before step 1.
  virtual std::string kind() const { return typeid(*this).name(); }

  // In the order in which Forward receives them; a unit may have none, a model has some. One that
  // no gradient reaches has a gradient of zeros: weight decay and moments change it all the same,
  // where torch's optimizers leave it.
  virtual std::vector<ParameterSpec> parameters() const = 0;

  virtual std::vector<BorrowedParameter> borrowed() const { return {}; }

  // Committed and exported with the parameters.
  virtual std::vector<BufferSpec> buffers() const { return {}; }

  // What Forward gets as x: a field of the batch; "": the output of the unit before, or the
  // batch's inputs in the first.
  virtual std::string input() const { return ""; }

  // Earlier units, by position, whose outputs it reads besides x: UnitContext::values(). Such an
  // output stays on the device until its own unit's backward; its readers' gradients are summed in
  // fp32, the last unit's first, and rounded once.
  virtual std::vector<int> reads() const { return {}; }

  // The parameter of its own, by position, of which Forward reads the rows that x numbers (int64)
  // and no others, as an embedding of tokens does; it has rows. -1: it reads all of all. A step
  // begins with such a first unit before the rest of it is updated.
  virtual int looks_up() const { return -1; }

  // `parameters`: own, then borrowed, in the run's dtype (bf16, fp16 or fp32).
  // `x`: see input(); what a dataset made comes as it made it: cast floating
  // inputs to parameters[0].dtype(). The first
  // dimension is samples. Differentiable in parameters and in x.
  virtual torch::Tensor Forward(const UnitContext& context,
                                const std::vector<torch::Tensor>& parameters,
                                const torch::Tensor& x) const = 0;

  // --- Optional, for generating a text without computing it anew for every token.

  // Elements that ForwardNext keeps of every position (attention: its key and value). 0: none
  // are needed. Negative: there is no ForwardNext.
  virtual int64_t KeptPerPosition() const { return -1; }

  // Forward on the next positions of one text: x [1, T, ...]. Fills T rows of `at.kept`, from
  // source + first on. Where input() is a field, x is the tokens. Not differentiated.
  virtual torch::Tensor ForwardNext(const UnitContext& context,
                                    const std::vector<torch::Tensor>& parameters,
                                    const torch::Tensor& x, const TextPosition& at) const {
    return {};
  }
};

// The unit that ends a model: from the last hidden state to the loss, in chunks
// of rows, so that logits of the whole micro-batch never exist at once.
class LossUnit {
 public:
  virtual ~LossUnit() = default;

  virtual std::string name() const = 0;
  // May be empty when something is borrowed or the loss has no parameters.
  virtual std::vector<ParameterSpec> parameters() const = 0;
  virtual std::vector<BorrowedParameter> borrowed() const { return {}; }

  // x [rows, features], labels [rows] -> fp32 scalar: the sum of the losses of
  // rows whose label is not kIgnoredLabel; of all rows where labels are fp32. Differentiable, but
  // that it may be a constant where no label counts.
  // Rows are labels.flatten(); x is the hidden state reshaped to [rows, -1].
  virtual torch::Tensor LossSum(const UnitContext& context,
                                const std::vector<torch::Tensor>& parameters,
                                const torch::Tensor& x, const torch::Tensor& labels) const = 0;

  // x [rows, features] -> logits [rows, classes], for generation. Optional.
  virtual torch::Tensor Logits(const UnitContext& context,
                               const std::vector<torch::Tensor>& parameters,
                               const torch::Tensor& x) const {
    return {};
  }

  // Of an evaluation: what is predicted and what is right, [any, 2] fp32, by which Quality says
  // how good it is beside the loss, the mean; it is given those of all calls, in order. Optional.
  virtual torch::Tensor Judge(const UnitContext& context,
                              const std::vector<torch::Tensor>& parameters, const torch::Tensor& x,
                              const torch::Tensor& labels) const {
    return {};
  }
  virtual std::vector<QualityMeasure> Quality(absl::Span<const Judgement> judgements,
                                              double loss) const {
    return {};
  }

  // The most rows of one LossSum call. Depends on shapes only, never on budgets:
  // another split would change gradient bits.
  virtual int64_t ChunkRows() const { return 1024; }
};

inline constexpr int64_t kIgnoredLabel = -100;

struct Model {
  std::vector<std::shared_ptr<const Unit>> units;
  std::shared_ptr<const LossUnit> loss;
  // The first so many units are an encoder: they read what others do not, and of them the others
  // read the last one's output, as a value, and parameters that they borrow. What is generated
  // comes from the others.
  int encoder_units = 0;
};

// Data by number. The engine decides which samples make a step.
class Dataset {
 public:
  virtual ~Dataset() = default;

  // Samples in one epoch; at least 1.
  virtual int64_t size() const = 0;

  // Samples by their numbers in [0, size()).
  virtual absl::StatusOr<Batch> Get(absl::Span<const int64_t> samples) = 0;

  // The same to be learnt from: of all that the run draws, epoch after epoch and over all ranks,
  // they are number `first_draw` and those that follow. A dataset that makes something of its
  // samples at random, such as which tokens are masked, goes by these numbers alone, so that a run
  // that goes on, and any rank, makes the same. What is evaluated comes from Get.
  virtual absl::StatusOr<Batch> Draw(absl::Span<const int64_t> samples, int64_t first_draw) {
    return Get(samples);
  }

  // These are asked for next, in this order: it may begin to read them, on a thread of its own.
  virtual void Prepare(absl::Span<const int64_t> samples) {}

  // Changes when the data changes; part of what --resume compares.
  virtual std::string fingerprint() const = 0;

  // Where samples differ in size: a micro-batch of `count` that takes as much memory as any, of
  // this data and of what is evaluated beside it. It is what the plan is made for. None: they are
  // all of one size.
  virtual absl::StatusOr<std::optional<Batch>> Largest(int64_t count) { return std::nullopt; }
};

}  // namespace spillway
