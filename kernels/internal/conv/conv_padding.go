package conv

import (
	"errors"
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// The words for a padding, as aten's overloads named padding take them.
const (
	paddingSame  = "same"
	paddingValid = "valid"
)

// wordPadding gives the sizes that a word stands for: all begins and then all ends. An
// odd number of zeros has the larger part at the end. What checkWord refuses is 0.
func wordPadding(word string, w tensor.Type, dilation []int, dims int) []sym.Int {
	pad := make([]sym.Int, 2*dims)
	if word != paddingSame || w.Rank() != dims+2 || len(dilation) != dims {
		return pad
	}
	for d := range dims {
		total := kit.TimesSizes(sym.Of(dilation[d]), w.Shape[2+d].Sub(sym.Of(1)))
		if kit.NumberOf(total) >= kit.Huge {
			continue // checkWindow refuses the window
		}
		pad[d] = total.Div(sym.Of(2))
		pad[dims+d] = total.Sub(pad[d])
	}
	return pad
}

// checkWord is what _convolution_mode and _convolution_same ask for before the padding is
// known as numbers.
func (p convParams) checkWord(x, w tensor.Type) error {
	if p.word != paddingSame {
		return nil
	}
	dims := w.Rank() - 2
	switch {
	case dims < 1:
		return errors.New("weight should have at least three dimensions")
	case x.Rank() != w.Rank():
		return fmt.Errorf("Expected %d-dimensional input for %d-dimensional weight%s, but got %d-dimensional input of "+
			"size %s instead", w.Rank(), w.Rank(), tensor.Sizes(w.Shape), x.Rank(), tensor.Sizes(x.Shape))
	case len(p.stride) != dims:
		return fmt.Errorf("stride cannot broadcast to %d dimensions", dims)
	case len(p.dilation) != dims:
		return fmt.Errorf("dilation cannot broadcast to %d dimensions", dims)
	case slices.ContainsFunc(p.stride, func(s int) bool { return s != 1 }):
		return errors.New("padding='same' is not supported for strided convolutions")
	}
	return nil
}

// evened is what _convolution_same hands on: an input that is extended at the ends where
// they need more zeros than the begins, and a padding that is the same on both sides. The
// copy decides about the layout of the result; kernels read the input as it is.
func (p convParams) evened(x tensor.Type) (convParams, tensor.Type, error) {
	if p.word != paddingSame || tensor.SameSizes(p.padding, p.end) {
		return p, x, nil
	}
	shape := slices.Clone(x.Shape)
	for d, begin := range p.padding {
		shape[2+d] = shape[2+d].Add(p.end[d]).Sub(begin)
	}
	p.end = p.padding
	x, err := tensor.NewTypeFormat(x.DType, shape, x.SuggestMemoryFormat(false))
	return p, x, err
}
