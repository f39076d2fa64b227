package view

import (
	"errors"
	"fmt"
	"math"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

type arangeAttrs struct {
	Start graph.Number `attr:"start" default:"0" doc:"first number"`
	End   graph.Number `attr:"end" doc:"bound, which is not reached"`
	Step  graph.Number `attr:"step" default:"1" doc:"difference between numbers"`
	DType tensor.DType `attr:"dtype" default:"none" doc:"dtype of the result; none: int64, or float32 where a float is given"`
}

// Arange is torch.arange.
var Arange = kit.Define[arangeAttrs](graph.Op{
	Name:    "arange",
	Doc:     "Counts from start up to end, without it, by step.",
	Infer:   inferArange,
	Compile: func(c *graph.Call) (*graph.Kernel, error) { return sequence(c, arangeAt(c)) },
	Ref:     sequenceRef(inferArange, arangeAt),
	Examples: []graph.Example{{Attrs: graph.Attrs{"start": 1, "end": 7, "step": 2}},
		{Attrs: graph.Attrs{"end": 1.5, "step": 0.25}}},
})

// inferArange computes the number of elements as at::arange_out does: from the numbers
// as given, in float64; for int64, and where they follow from unknown sizes, from integers.
func inferArange(c *graph.Call) ([]graph.Result, error) {
	a := kit.Attrs[arangeAttrs](c)
	for _, s := range a.numbers() {
		if s.DType().IsComplex() {
			return nil, errors.New("value cannot be converted to type double without overflow")
		}
	}
	d := a.dtype()
	if d == tensor.Bool || d.IsComplex() {
		return nil, kit.NotImplemented("arange", d)
	}
	size, err := a.unknownSize()
	if len(a.numbers()) == 3 {
		size, err = a.size(d)
	}
	if err != nil {
		return nil, err
	}
	t, err := kit.FreshType(d, []sym.Int{size})
	return c.One(t), err
}

// numbers lists those of start, end and step that are known.
func (a *arangeAttrs) numbers() []tensor.Scalar {
	var list []tensor.Scalar
	for _, n := range []graph.Number{a.Start, a.End, a.Step} {
		if n.Scalar.IsSet() {
			list = append(list, n.Scalar)
		}
	}
	return list
}

var (
	errNoStep    = errors.New("step must be nonzero")
	errWrongSign = errors.New("upper bound and larger bound inconsistent with step sign")
)

// unknownSize is the number of elements where bounds follow from unknown sizes.
func (a *arangeAttrs) unknownSize() (sym.Int, error) {
	start, okStart := a.Start.Int()
	end, okEnd := a.End.Int()
	step, okStep := a.Step.Int()
	if !okStart || !okEnd || !okStep {
		return sym.Int{}, errors.New("bounds that follow from sizes go with integers only")
	}
	if step.Lt(sym.Int{}).Holds() {
		start, end, step = end, start, step.Neg()
	}
	switch {
	case step.Eq(sym.Int{}).Holds():
		return sym.Int{}, errNoStep
	case end.Lt(start).Holds():
		return sym.Int{}, errWrongSign
	}
	return end.Sub(start).Add(step).Sub(sym.Of(1)).Div(step), nil
}

// size is the number of elements where all numbers are known.
func (a *arangeAttrs) size(d tensor.DType) (sym.Int, error) {
	start, end, step := a.Start.Scalar.Float(), a.End.Scalar.Float(), a.Step.Scalar.Float()
	size := math.Ceil((end - start) / step)
	if d.IsIntegral(false) {
		for _, s := range a.numbers() {
			if err := kit.NumberFits(s, tensor.Int64); err != nil {
				return sym.Int{}, err
			}
		}
		start, end, step = float64(a.Start.Scalar.Int()), float64(a.End.Scalar.Int()), float64(a.Step.Scalar.Int())
		if d == tensor.Int64 {
			size = math.Ceil((end - start) / step)
		}
	}
	switch {
	case !(step > 0 || step < 0):
		return sym.Int{}, errNoStep
	case math.IsInf(start-end, 0) || math.IsNaN(start-end):
		return sym.Int{}, fmt.Errorf("unsupported range: %v -> %v", start, end)
	case step > 0 && end < start || step < 0 && end > start:
		return sym.Int{}, errWrongSign
	case !(size >= 0 && size <= math.MaxInt64/2):
		return sym.Int{}, errors.New("invalid size, possible overflow?")
	}
	return sym.Of(int(size)), nil
}

func (a *arangeAttrs) dtype() tensor.DType {
	if a.DType != tensor.Invalid {
		return a.DType
	}
	for _, s := range a.numbers() {
		if s.DType().IsFloat() {
			return tensor.Float32
		}
	}
	return tensor.Int64
}

func arangeAt(c *graph.Call) func(i int) tensor.Scalar {
	a := kit.Attrs[arangeAttrs](c)
	if a.dtype().IsIntegral(false) {
		start, step := a.Start.Scalar.Int(), a.Step.Scalar.Int()
		return func(i int) tensor.Scalar { return tensor.IntScalar(start + int64(i)*step) }
	}
	start, step := a.Start.Scalar.Float(), a.Step.Scalar.Float()
	return func(i int) tensor.Scalar { return tensor.FloatScalar(start + float64(i)*step) }
}
