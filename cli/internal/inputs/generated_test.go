package inputs

import (
	"bytes"
	"testing"

	"github.com/graphrun/graphrun/tensor"
)

func TestMadeUp(t *testing.T) {
	for _, d := range tensor.DTypes() {
		m := tensor.New(d, 2, 3, 50)
		ct := generate(m, 1, "x", generatedIntegers)
		strided := generate(tensor.Meta{DType: d, Shape: []int{2, 3, 50}, Strides: []int{3, 1, 6}, Offset: 2}, 1, "x",
			generatedIntegers)
		inOrder := func(x *tensor.Tensor) []byte { return x.CopyTo(tensor.New(d, 2, 3, 50)).Storage().Bytes() }
		if !bytes.Equal(inOrder(ct), inOrder(strided)) {
			t.Errorf("%v: layouts change values", d)
		}
		if bytes.Equal(inOrder(ct), inOrder(generate(m, 1, "y", generatedIntegers))) {
			t.Errorf("%v: x and y get the same values", d)
		}
		if least, most, _ := ct.Stats(); least == most || least < -1 || most > 9 {
			t.Errorf("%v: values from %v to %v", d, least, most)
		}
	}
}
