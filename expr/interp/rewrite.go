package interp

import (
	"unsafe"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/tensor"
)

// constantHalves replaces conversions of constants to 16-bit floats by constants of that dtype.
func constantHalves(c *expr.Code) (*expr.Code, error) {
	return c.Rewrite(func(b *expr.Builder, i expr.Inst) expr.Value {
		from := b.Inst(i.A)
		if i.Op != expr.Convert || !i.DType.IsReducedFloat() || from.Op != expr.Const {
			return b.Make(i)
		}
		var imm uint64
		tensor.Converter(i.DType, from.DType)(unsafe.Pointer(&imm), unsafe.Pointer(&from.Imm), 0, 0, 1)
		return b.Make(expr.Inst{Op: expr.Const, DType: i.DType, Imm: imm})
	})
}

// removeUnitFactors removes a factor of 1 from products of three factors. The remaining product of two factors can join
// the loop of its user. A sum with a product of three factors would match a slower peephole.
func removeUnitFactors(c *expr.Code) (*expr.Code, error) {
	return c.Rewrite(func(b *expr.Builder, i expr.Inst) expr.Value {
		if first := b.Inst(i.A); i.Op == expr.Mul && first.Op == expr.Mul {
			switch {
			case isOne(b.Inst(first.B)):
				i.A = first.A
			case isOne(b.Inst(first.A)):
				i.A = first.B
			}
		}
		return b.Make(i)
	})
}

func isOne(i expr.Inst) bool {
	return i.Op == expr.Const && i.Imm != 0 && i.Imm == expr.Neutral(expr.Mul, i.DType)
}
