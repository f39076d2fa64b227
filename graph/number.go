package graph

import (
	"github.com/graphrun/graphrun/internal/numerals"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// Number is an attribute that is a plain number, or an integer that follows from unknown sizes: the bound of a
// range. Scalar holds the number. Where it is not known Scalar is not set ([tensor.Scalar.IsSet]), and Size is
// the expression.
type Number struct {
	Scalar tensor.Scalar
	Size   sym.Int
}

// Int returns the number as an integer, and whether it is one.
func (n Number) Int() (sym.Int, bool) {
	switch d := n.Scalar.DType(); {
	case !n.Scalar.IsSet():
		return n.Size, true
	case d.IsFloat() || d.IsComplex():
		return sym.Int{}, false
	}
	return sym.Of(int(n.Scalar.Int())), true
}

func (n *Number) set(v any, symbols map[string]sym.Int) error {
	if text, ok := v.(string); ok && !numerals.IsSpecial(text) {
		s, err := toSize(v, symbols)
		if k, known := s.Known(); err == nil && known {
			n.Scalar = tensor.IntScalar(int64(k))
		}
		n.Size = s
		return err
	}
	s, ok := numerals.Scalar(v)
	if !ok {
		return noNumber(v)
	}
	n.Scalar = s
	return nil
}
