package writer

import (
	"github.com/graphrun/graphrun/internal/jit/target"
	"github.com/graphrun/graphrun/internal/jit/target/arm64/asm"
)

// Quantize converts int32 sums to quantized values, as int32 in the same register. The sums are multiplied by the
// scales, rounded to nearest even, and added to the zero point with saturation to int32. NaN becomes 0.
func (w *Writer) Quantize(sums, scales, zeroPoint target.VReg) {
	x, notNaN := w.vec(sums), w.vec(vectorTemp)
	w.ToFloats(sums)
	w.Emit("fmul", x, x, w.vec(scales))
	w.Emit("fcmeq", notNaN, x, x)
	w.Emit("fcvtns", x, x) // saturates
	w.Emit("sqadd", x, x, w.vec(zeroPoint))
	w.Emit("and", x.As(asm.B), x.As(asm.B), notNaN.As(asm.B))
}

// PackBytes packs the int32 lanes of up to four vectors into bytes of the first vector, with saturation. With fewer
// than four vectors, the remaining bytes are arbitrary. PackBytes overwrites the third vector.
func (w *Writer) PackBytes(vecs []target.VReg, signed bool) {
	// narrowPair narrows the lanes of vectors i and i+1 to 16 bits, in the register of vector i.
	narrowPair := func(i int) asm.Vec {
		x := w.vec(vecs[i])
		w.Emit("sqxtn", x.As(asm.H).Low(), x)
		if i+1 < len(vecs) {
			w.Emit("sqxtn2", x.As(asm.H), w.vec(vecs[i+1]))
		}
		return x.As(asm.H)
	}
	name := "sqxtun"
	if signed {
		name = "sqxtn"
	}
	low := narrowPair(0)
	w.Emit(name, low.As(asm.B).Low(), low)
	if len(vecs) > 2 {
		w.Emit(name+"2", low.As(asm.B), narrowPair(2))
	}
}
