package kit

import (
	"github.com/graphrun/graphrun/internal/strided"
	"github.com/graphrun/graphrun/tensor"
)

// ElemOf returns how elements go from one dtype to another. Those of one dtype are moved as
// they are: the converter from bool to bool would look at every byte.
func ElemOf(dst, src tensor.DType) strided.Elem {
	if dst == src {
		return strided.Move(dst.Size())
	}
	return strided.Convert(dst.Size(), src.Size(), tensor.Converter(dst, src))
}

// Mover returns the loop over a row of a copy.
func Mover(dst, src tensor.DType) strided.Row { return ElemOf(dst, src).Row }
