//go:build linux || darwin

package vector

import (
	"bytes"
	"encoding/binary"
	"math"
	"testing"
	"unsafe"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/internal/jit"
	"github.com/graphrun/graphrun/internal/testsize"
	"github.com/graphrun/graphrun/tensor"
)

// TestElementaryBits checks that elementary functions give the same bits with AVX-512 and AVX2: alone, as part of a
// sum, and in gelu. Under an emulator the functions alternate between the dtypes.
func TestElementaryBits(t *testing.T) {
	if len(levels(t)) < 2 {
		t.Skip("one instruction set")
	}
	for i, d := range []tensor.DType{tensor.Float32, tensor.Float64} {
		for o := expr.Exp; o.Elementary(); o++ {
			if testsize.Short((int(o)+i)%2 == 0, false) {
				continue
			}
			b := expr.NewBuilder(d, d)
			f := b.Emit(o, []expr.Value{b.Load(0), b.Load(1)}[:o.ArgCount()]...)
			code, err := b.Build(b.Real(f), b.Real(b.Emit(expr.Add, f, b.Const(d, 1))))
			if err != nil {
				t.Fatal(err)
			}
			sameBits(t, code, o.String())
		}
		gelu, err := expr.Parse("x * (1 + erf(x * 0.7071067811865476)) + y", "x", "y")
		if err != nil {
			t.Fatal(err)
		}
		code, err := gelu.Code([]tensor.DType{d, d}, expr.Typing{Out: []tensor.DType{d}})
		if err != nil {
			t.Fatal(err)
		}
		sameBits(t, code, "gelu")
	}
}

// sameBits compares the results of code with two operands on both instruction sets. The numbers have all exponents.
// Among them are special numbers, and some whose exponentials overflow or are subnormal.
func sameBits(t *testing.T, code *expr.Code, name string) {
	t.Helper()
	const n = 1 << 14
	size := code.In[0].Size()
	var results [2][]byte
	for k, cpu := range levels(t) {
		c, err := Compile(&expr.Loop{Code: code, Uniform: []bool{false, false}}, cpu, Options{})
		if err != nil {
			t.Fatal(name, err)
		}
		var ptrs []unsafe.Pointer
		for range code.Out {
			results[k] = append(results[k], make([]byte, n*size)...)
		}
		for j := range code.Out {
			ptrs = append(ptrs, unsafe.Pointer(&results[k][j*n*size]))
		}
		x, y := spread(size, n)
		ptrs = append(ptrs, unsafe.Pointer(&x[0]), unsafe.Pointer(&y[0]))
		if err := c.Run(new(jit.Args), ptrs, make([]int, len(ptrs)), n, 1); err != nil {
			t.Fatal(name, err)
		}
	}
	for at := 0; at < len(results[0]); at += size {
		v, w := results[0][at:at+size], results[1][at:at+size]
		if !bytes.Equal(v, w) && !(isNaN(v) && isNaN(w)) {
			t.Fatalf("%s of %v: element %d is % x or % x", name, code.In[0], at/size, v, w)
		}
	}
}

// spread returns the bytes of two lists of n floats of a size in bytes.
func spread(size, n int) (x, y []byte) {
	put := func(b []byte, u uint64) []byte {
		return append(b, binary.LittleEndian.AppendUint64(nil, u)[8-size:]...)
	}
	for k := range n {
		u := uint64(k) << 50
		if f := 1480*float64(k)/float64(n) - 760; k%2 == 0 && size == 8 {
			u = math.Float64bits(f)
		} else if k%2 == 0 {
			u = uint64(math.Float32bits(float32(f/8))) << 32
		}
		x, y = put(x, u), put(y, uint64(k)*0x9e3779b97f4a7c15)
	}
	return x, y
}

func isNaN(b []byte) bool {
	if len(b) == 4 {
		x := math.Float32frombits(binary.LittleEndian.Uint32(b))
		return x != x
	}
	x := math.Float64frombits(binary.LittleEndian.Uint64(b))
	return x != x
}
