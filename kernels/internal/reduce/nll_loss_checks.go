package reduce

import (
	"errors"
	"fmt"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// This file describes and checks calls of nll_loss and cross_entropy_loss.

// Values of the attribute reduction.
const (
	reductionNone = iota
	reductionMean
	reductionSum
)

// nllLoss has the sizes and attributes of a call. Let x be self or, for cross_entropy_loss, its log-softmax, viewed as
// [samples, classes, targetsPerSample]. For example, 2 images of 8x8 pixels with 21 classes have samples 2, classes 21
// and targetsPerSample 64. There is one target for each sample s and each position p:
//
//	loss[s, p] = -x[s, t, p] * weight[t]                                   if the target is the class t
//	loss[s, p] = -(sum over c of x[s, c, p] * probability[c] * weight[c])  if the target is a list of probabilities
//
// With smoothing, (1-smoothing)*probability[c] + smoothing/classes replaces the probability of class c. If the target
// is the class t, probability[t] is 1, and the other probabilities are 0. The mean of the losses is their sum divided
// by the sum of weight[t]. If targets are probabilities, it is their sum divided by the number of targets.
type nllLoss struct {
	samples, classes, targetsPerSample int
	reduction                          int     // reductionNone, reductionMean or reductionSum
	ignoreIndex                        int     // targets of this class do not count
	isCrossEntropy                     bool    // cross_entropy_loss, else nll_loss
	hasProbabilities                   bool    // targets are class probabilities
	smoothing                          float64 // share of the target that is spread over all classes
}

// targetSizes returns the shape of targets that are classes: the shape of self, [n, c, ...] or [c], without c.
func targetSizes(self tensor.Type) []sym.Int {
	if self.Rank() == 1 {
		return nil
	}
	return append([]sym.Int{self.Shape[0]}, self.Shape[2:]...)
}

// resultDType returns the dtype of the result. It is the dtype of self or, if targets are probabilities, the promotion
// of the dtypes of self, targets and weights.
func (l *nllLoss) resultDType(c *graph.Call) (tensor.DType, error) {
	dtype := c.Type(0).DType
	if !l.hasProbabilities {
		return dtype, nil
	}
	var err error
	for i := 1; i < len(c.In) && err == nil; i++ {
		if c.HasOperand(i) {
			dtype, err = tensor.Promote(dtype, c.Type(i).DType)
		}
	}
	return dtype, err
}

// checkAndSetSizes checks a call and sets the fields for sizes.
func (l *nllLoss) checkAndSetSizes(call *graph.Call) error {
	self, target, weight := call.Type(0), call.Type(1), call.Type(2)
	if l.reduction < reductionNone || l.reduction > reductionSum {
		return fmt.Errorf("%d is not a valid value for reduction", l.reduction)
	}
	if self.Rank() == 0 {
		return errors.New("input tensor should be 1D or 2D")
	}
	classes := l.setSizes(self)
	if l.smoothing > 1 {
		return fmt.Errorf("label_smoothing must be between 0.0 and 1.0. Got: %g", l.smoothing)
	}
	switch {
	case l.hasProbabilities && !target.DType.IsFloat():
		return fmt.Errorf("Expected floating point type for target with class probabilities, got %s",
			target.DType.TorchName())
	case l.hasProbabilities && l.ignoreIndex >= 0:
		return errors.New("ignore_index is not supported for floating point target")
	case !l.hasProbabilities:
		if err := checkTargets(self, target); err != nil {
			return err
		}
	}
	hasWeight := call.HasOperand(2)
	isWeightDTypeValid := weight.DType.IsFloat() && (l.hasProbabilities || weight.DType == self.DType)
	switch {
	case hasWeight && (weight.Rank() != 1 || weight.Shape[0].Ne(classes).Holds()):
		return fmt.Errorf("weight tensor should be defined either for all %v classes or no classes but got weight tensor "+
			"of shape: %s", classes, tensor.Sizes(weight.Shape))
	case !self.DType.IsFloat():
		return kit.NotImplementedBy("nll_loss_out_frame", self.DType)
	case !l.hasProbabilities && target.DType != tensor.Int64:
		return fmt.Errorf("expected scalar type Long but found %s", target.DType.TorchName())
	case hasWeight && !isWeightDTypeValid:
		return fmt.Errorf("expected scalar type %s but found %s", self.DType.TorchName(), weight.DType.TorchName())
	}
	return nil
}

// setSizes sets the fields for sizes and returns the number of classes. Unknown sizes occur only in inference. The
// fields are then hints.
func (l *nllLoss) setSizes(self tensor.Type) (classes sym.Int) {
	classes = self.Shape[min(1, self.Rank()-1)]
	l.samples, l.classes, l.targetsPerSample = 1, kit.KnownSize(classes), 1
	if self.Rank() > 1 {
		l.samples, l.targetsPerSample = kit.KnownSize(self.Shape[0]), kit.KnownSize(tensor.Product(self.Shape[2:]))
	}
	return classes
}

// checkTargets checks the shape of targets that are classes.
func checkTargets(self, target tensor.Type) error {
	expected := targetSizes(self)
	if self.Rank() > 1 && (target.Rank() == 0 || target.Shape[0].Ne(self.Shape[0]).Holds()) {
		batchSize := sym.Int{} // 0 for a 0-dimensional target
		if target.Rank() > 0 {
			batchSize = target.Shape[0]
		}
		return fmt.Errorf("Expected input batch_size (%v) to match target batch_size (%v).", self.Shape[0], batchSize)
	}
	if !tensor.SameSizes(target.Shape, expected) {
		return fmt.Errorf("Expected target size %s, got %s", tensor.Sizes(expected), tensor.Sizes(target.Shape))
	}
	return nil
}

// targets returns the number of targets.
func (l *nllLoss) targets() int { return l.samples * l.targetsPerSample }
