//go:build linux || darwin

package expr_test

import (
	"encoding/binary"
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/expr/interp"
	"github.com/graphrun/graphrun/internal/jit/jittest"
	"github.com/graphrun/graphrun/tensor"
)

// element returns element i of a list, zero-extended.
func element(list []byte, size, i int) uint64 {
	var b [8]byte
	copy(b[:], list[i*size:i*size+size])
	return binary.LittleEndian.Uint64(b[:])
}

// TestPrimitives holds the interpreter against the definition, Go's arithmetic in float64 and of 64 bits: every
// primitive operation of every dtype, for all pairs of numbers at which something may go wrong.
func TestPrimitives(t *testing.T) {
	checked := 0
	for _, d := range tensor.DTypes() {
		if d.IsComplex() || d.IsReducedFloat() {
			continue
		}
		for o := expr.Add; o.Primitive(); o++ {
			b := expr.NewBuilder(d, d, tensor.Bool)
			x, y := b.Load(0), b.Load(1)
			var v expr.Value
			switch {
			case o == expr.Select:
				v = b.Emit(o, b.Load(2), x, y)
			default:
				v = b.Emit(o, []expr.Value{x, y, x}[:o.ArgCount()]...)
			}
			c, err := b.Build(b.Real(v))
			if err != nil {
				continue // an operation that the dtype does not have
			}
			checkPairs(t, c, o, d)
			checked++
		}
	}
	if checked < 190 {
		t.Errorf("only %d operations were checked", checked)
	}
}

// checkPairs runs an operation on all pairs of numbers.
func checkPairs(t *testing.T, c *expr.Code, o expr.Op, d tensor.DType) {
	t.Helper()
	numbers, size := jittest.EdgeCases(d), d.Size()
	n := len(numbers) / size
	var x, y []byte
	for i := range n {
		for range n {
			x = append(x, numbers[i*size:i*size+size]...)
		}
		y = append(y, numbers...)
	}
	which := jittest.RandomElements(rand.New(rand.NewPCG(1, 1)), tensor.Bool, n*n)
	result := c.Out[0].DType
	got := make([]byte, n*n*result.Size())
	p, err := interp.New(&expr.Loop{Code: c, Uniform: make([]bool, 3)})
	if err != nil {
		t.Fatal(err)
	}
	p.Run(nil, []unsafe.Pointer{unsafe.Pointer(&got[0]), unsafe.Pointer(&x[0]), unsafe.Pointer(&y[0]),
		unsafe.Pointer(&which[0])}, make([]int, 4), nil, n*n, 1)
	for i := range n * n {
		a, b := element(x, size, i), element(y, size, i)
		if anyNumber(o, d, a, b) {
			continue
		}
		want := c.Eval(expr.Number{Re: a}, expr.Number{Re: b}, expr.Number{Re: uint64(which[i])})[0].Re
		bits := binary.LittleEndian.AppendUint64(nil, want)[:result.Size()]
		if e := got[i*len(bits):][:len(bits)]; !jittest.Same(result, e, bits) {
			t.Errorf("%v of %v: %#x, %#x gives % x, want % x", o, d, a, b, e, bits)
			return
		}
	}
}

// anyNumber reports whether an operation of these numbers may give any.
func anyNumber(o expr.Op, d tensor.DType, a, b uint64) bool {
	switch o {
	case expr.Div:
		return !d.IsFloat() && b == 0
	case expr.Scale:
		x := float(d, a)
		return math.IsInf(float(d, b), 0) && (x == 0 || x-x != 0)
	case expr.Limit:
		x, y := float(d, a), float(d, b)
		return x != x || y != y
	}
	return false
}

// float is the number that the bits of a float32 or a float64 are.
func float(d tensor.DType, bits uint64) float64 {
	if d == tensor.Float32 {
		return float64(math.Float32frombits(uint32(bits)))
	}
	return math.Float64frombits(bits)
}

// precision returns the bits of a float's mantissa, the exponents of the least normal number and of what is too much.
func precision(d tensor.DType) (bits uint, least, most int) {
	switch d {
	case tensor.Float16:
		return 11, -14, 16
	case tensor.BFloat16:
		return 8, -126, 128
	case tensor.Float32:
		return 24, -126, 128
	}
	return 53, -1022, 1024
}

// nearest rounds an exact number, not 0, to the nearest of a dtype, and to the even of two.
func nearest(x *big.Float, d tensor.DType) float64 {
	bits, least, most := precision(d)
	// In units of the last place that x has there.
	unit := max(x.MantExp(nil)-1, least) - int(bits) + 1
	scaled := new(big.Float).SetMantExp(x, -unit)
	whole, _ := scaled.Int(nil)
	rest := new(big.Float).SetPrec(2000).Sub(scaled, new(big.Float).SetPrec(2000).SetInt(whole))
	rest.Abs(rest)
	if half := rest.Cmp(big.NewFloat(0.5)); half > 0 || half == 0 && whole.Bit(0) == 1 {
		whole.Add(whole, big.NewInt(int64(x.Sign())))
	}
	r := new(big.Float).SetMantExp(new(big.Float).SetInt(whole), unit)
	v, _ := r.Float64()
	if math.Abs(v) >= math.Ldexp(1, most) || math.IsInf(v, 0) {
		return math.Inf(x.Sign())
	}
	if v == 0 {
		return math.Copysign(0, float64(x.Sign()))
	}
	return v
}

// converted is what c10::convert makes of a number: through float32 to floats of 16 bits, truncated to integers, of
// which those that wrap keep their lowest bits. It reports whether that is defined.
func converted(s, d tensor.DType, bits uint64) (want uint64, ok bool) {
	x := new(big.Float).SetPrec(2000)
	v := math.NaN()
	switch {
	case s.IsFloat():
		tensor.Converter(tensor.Float64, s)(unsafe.Pointer(&v), unsafe.Pointer(&bits), 0, 0, 1)
		if v == v {
			x.SetFloat64(v)
		}
	case s.IsSigned():
		shift := 64 - 8*s.Size()
		x.SetInt64(int64(bits<<shift) >> shift)
		v, _ = x.Float64()
	default:
		x.SetUint64(bits)
		v, _ = x.Float64()
	}
	switch {
	case d == tensor.Bool:
		if v != 0 {
			want = 1
		}
		return want, true
	case !d.IsFloat():
		if v != v || math.IsInf(v, 0) {
			return 0, false
		}
		whole, _ := x.Int(nil)
		low, high := new(big.Int), new(big.Int).Lsh(big.NewInt(1), uint(8*d.Size()))
		if d.IsSigned() {
			high.Rsh(high, 1)
			low.Neg(high)
		}
		if s.IsFloat() && (whole.Cmp(low) < 0 || whole.Cmp(high) >= 0) {
			return 0, false
		}
		whole.And(whole, new(big.Int).SetUint64(math.MaxUint64>>(64-8*d.Size())))
		return whole.Uint64(), true
	}
	if v == v && v != 0 && !math.IsInf(v, 0) {
		if d.IsReducedFloat() {
			if v = nearest(x, tensor.Float32); v != 0 && !math.IsInf(v, 0) {
				v = nearest(x.SetFloat64(v), d)
			}
		} else {
			v = nearest(x, d)
		}
	}
	tensor.Converter(d, tensor.Float64)(unsafe.Pointer(&want), unsafe.Pointer(&v), 0, 0, 1)
	return want, true
}

// TestConversions holds conversions between all real dtypes against exact arithmetic: every number of 8 and 16 bits,
// and those at which something may go wrong.
func TestConversions(t *testing.T) {
	real := tensor.DTypes()[:len(tensor.DTypes())-2]
	for _, s := range real {
		list := jittest.AllValues(s)
		n := len(list) / s.Size()
		for _, d := range real {
			b := expr.NewBuilder(s)
			c, err := b.Build(b.Real(b.Convert(d, b.Load(0))))
			if err != nil {
				t.Fatal(err)
			}
			p, err := interp.New(&expr.Loop{Code: c, Uniform: []bool{false}})
			if err != nil {
				t.Fatal(err)
			}
			got := make([]byte, n*d.Size())
			p.Run(nil, []unsafe.Pointer{unsafe.Pointer(&got[0]), unsafe.Pointer(&list[0])}, make([]int, 2), nil, n, 1)
			for i := range n {
				bits := element(list, s.Size(), i)
				want, ok := converted(s, d, bits)
				w := binary.LittleEndian.AppendUint64(nil, want)[:d.Size()]
				if g := got[i*len(w):][:len(w)]; ok && !jittest.Same(d, g, w) {
					t.Errorf("%v %#x as %v is % x, want % x", s, bits, d, g, w)
					break
				}
			}
		}
	}
}
