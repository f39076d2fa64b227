package writer

import (
	"github.com/graphrun/graphrun/internal/jit/target"
	"github.com/graphrun/graphrun/internal/jit/target/arm64/asm"
)

// LoadPair loads eight bytes from the address low into the lower half of a register, and eight bytes from the address
// high into its upper half.
func (w *Writer) LoadPair(low, high target.Addr, to target.VReg) {
	w.Emit("ldr", lowBytes(to, 8), w.mem(low, 8))
	w.Emit("ldr", lowBytes(vectorTemp, 8), w.mem(high, 8))
	x := asm.V(int(to), asm.D)
	w.Emit("zip1", x, x, asm.V(int(vectorTemp), asm.D))
}

// MatrixProduct adds the matrix product of x and y to sum. x has two rows of eight bytes, and y has two columns of
// eight signed bytes. The lanes of sum are row 0 by columns 0 and 1, then row 1 by columns 0 and 1. If signed is true,
// the bytes of x are signed.
func (w *Writer) MatrixProduct(x, y, sum target.VReg, signed bool) {
	name := "usmmla"
	if signed {
		name = "smmla"
	}
	w.Emit(name, w.vec(sum), w.vec(x).As(asm.B), w.vec(y).As(asm.B))
}

// ExchangeHalves exchanges the upper half of x and the lower half of y.
func (w *Writer) ExchangeHalves(x, y target.VReg) {
	a, b, temp := asm.V(int(x), asm.D), asm.V(int(y), asm.D), asm.V(int(vectorTemp), asm.D)
	w.Emit("trn1", temp, a, b) // the lower halves
	w.Emit("trn2", b, a, b)    // the upper halves
	w.Copy(vectorTemp, x)      // x = temp
}
