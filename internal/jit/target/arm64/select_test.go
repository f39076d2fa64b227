package arm64_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"unsafe"

	"github.com/graphrun/graphrun/internal/jit"
	"github.com/graphrun/graphrun/internal/jit/jittest"
	"github.com/graphrun/graphrun/internal/jit/target/arm64"
	"github.com/graphrun/graphrun/internal/lane"
	"github.com/graphrun/graphrun/internal/testsize"
	"github.com/graphrun/graphrun/tensor"
)

// computed are the dtypes that have operations, and stored are all real dtypes.
var (
	computed = []tensor.DType{tensor.Float32, tensor.Float64, tensor.Int32, tensor.Bool, tensor.Int8, tensor.Uint8,
		tensor.Int64, tensor.Int16, tensor.Uint16, tensor.Uint32, tensor.Uint64}
	stored = append([]tensor.DType{tensor.Float16, tensor.BFloat16}, computed...)
)

// passTest compares passes of a loop with lane.Eval. Pointers are the outputs, then the operands.
type passTest struct {
	*testing.T
	lane.Loop
	rng      *rand.Rand
	outputs  int
	data     [][]byte      // by pointer: elements
	expected [][][2]uint64 // by output and element: real and imaginary part
	name     string
}

// testElements is the number of elements of each operand.
const testElements = 96

const registerBytes = 16

// newTest returns a test of a loop with the given operands. Bits of row select operands that have one element for the
// row.
func newTest(t *testing.T, rng *rand.Rand, out []tensor.DType, in []tensor.DType, row int) (*passTest, []lane.Value) {
	p := &passTest{T: t, rng: rng, outputs: len(out), name: fmt.Sprint(in, " to ", out, ", row operands ", row)}
	for _, d := range out {
		p.Ptrs = append(p.Ptrs, lane.Ptr{DType: d, Kind: lane.Output})
		p.data = append(p.data, make([]byte, (testElements+1)*d.Size()))
	}
	var loads []lane.Value
	for k, d := range in {
		kind := lane.Operand
		if row>>k&1 != 0 {
			kind = lane.RowOperand
		}
		p.Ptrs = append(p.Ptrs, lane.Ptr{DType: d, Kind: kind})
		p.data = append(p.data, jittest.RandomElements(rng, d, testElements))
		loads = append(loads, p.Load(len(out)+k, 0))
		if d.IsComplex() {
			loads = append(loads, p.Load(len(out)+k, 1))
		}
	}
	return p, loads
}

// element returns the bits of part k of element e at a pointer.
func (p *passTest) element(ptr, e, k int) (bits uint64) {
	d := p.Ptrs[ptr].DType
	if p.Ptrs[ptr].Kind == lane.RowOperand {
		e = 0
	}
	size := d.ToReal().Size()
	copy((*[8]byte)(unsafe.Pointer(&bits))[:size], p.data[ptr][e*d.Size()+k*size:])
	return bits
}

// eval computes the expected outputs of an element.
func (p *passTest) eval(e int) {
	v := make([]uint64, len(p.Insts))
	for k := range p.Insts {
		i := &p.Insts[k]
		var x [3]uint64
		for n, u := range i.Operands() {
			x[n] = v[u]
		}
		switch i.Op {
		case lane.Const:
			v[k] = i.Imm
		case lane.Load:
			v[k] = p.element(int(i.Ptr), e, int(i.Imm))
		case lane.Lookup:
			v[k] = uint64(*(*uint32)(unsafe.Pointer(&i.Table[x[0]&31])))
		case lane.Store:
			p.expected[i.Ptr] = append(p.expected[i.Ptr], [2]uint64{x[0], x[1]})
		default:
			uses := i.Operands()
			v[k] = lane.Eval(i.Op, i.Type.DType, p.Type(uses[len(uses)-1]).DType, x)
		}
	}
}

// run compiles and runs passes of all sizes.
func (p *passTest) run() {
	p.Helper()
	if err := p.Check(); err != nil {
		p.Fatal(p.name, err)
	}
	p.expected = make([][][2]uint64, p.outputs)
	for e := range testElements {
		p.eval(e)
	}
	least, greatest := registerBytes, 1
	for _, i := range p.Insts {
		if i.Op != lane.Store {
			least, greatest = min(least, i.Type.Size()), max(greatest, i.Type.Size())
		}
	}
	for n := min(2*registerBytes/least, testElements/3); n >= registerBytes/greatest; n /= 2 {
		p.passes(n, n)
	}
	for m := registerBytes / greatest / 2; m > 0; m /= 2 {
		p.passes(registerBytes/greatest, m)
	}
}

// passes computes m elements at a time with instructions for n lanes.
func (p *passTest) passes(n, m int) {
	p.Helper()
	code, err := arm64.CompilePass(&p.Loop, n, m, p.rng)
	if err != nil {
		p.Fatal(p.name, err)
	}
	for k := range p.outputs {
		clear(p.data[k])
	}
	args := &jit.Args{}
	args.Ptr[arm64.SlotPointer] = unsafe.Pointer(&make([]byte, arm64.SlotBytes)[0])
	for at := range testElements / m {
		for k, ptr := range p.Ptrs {
			first := &p.data[k][at*m*ptr.DType.Size()]
			if ptr.Kind == lane.RowOperand {
				first = &p.data[k][0]
			}
			args.Ptr[k] = unsafe.Pointer(first)
		}
		if err := code.Call(args); err != nil {
			p.Fatal(err)
		}
	}
	for k := range p.outputs {
		p.compare(k, n, m)
	}
}

// compare compares an output with the expected elements.
func (p *passTest) compare(out, n, m int) {
	p.Helper()
	d := p.Ptrs[out].DType
	size := d.ToReal().Size()
	for e, want := range p.expected[out] {
		for part, w := range want[:d.Size()/size] {
			got := p.element(out, e, part)
			if !jittest.Same(d.ToReal(), (*[8]byte)(unsafe.Pointer(&got))[:size], (*[8]byte)(unsafe.Pointer(&w))[:size]) {
				var in []string
				for k := p.outputs; k < len(p.Ptrs); k++ {
					in = append(in, fmt.Sprintf("%x", p.element(k, e, 0)))
				}
				p.Fatalf("%s: passes of %d of %d, output %d, element %d: %#x, want %#x for %v", p.name, m, n, out, e, got, w,
					in)
			}
		}
	}
	if end := p.data[out][testElements*d.Size():]; slices.Max(end) != 0 {
		p.Fatalf("%s: passes of %d of %d wrote beyond output %d", p.name, m, n, out)
	}
}

// each runs a test for each set of row operands. make stores the outputs.
func each(t *testing.T, rounds int, out, in []tensor.DType, make func(p *passTest, x []lane.Value)) {
	t.Helper()
	rng := rand.New(rand.NewPCG(7, 8))
	for row := range 1 << len(in) {
		for range rounds {
			p, x := newTest(t, rng, out, in, row)
			make(p, x)
			p.run()
		}
	}
}

// storeOne stores the only output.
func (p *passTest) storeOne(v lane.Value) { p.Store(0, p.Remask(v, 1), lane.None) }

func needArm64(t *testing.T) {
	if runtime.GOARCH != "arm64" {
		t.Skip("the code is for arm64")
	}
}

// result returns the dtype of the result of an operation on operands of dtype d.
func result(op lane.Op, d tensor.DType) tensor.DType {
	if op.Compares() {
		return tensor.Bool
	}
	return d
}

func TestSelectOps(t *testing.T) {
	testsize.Long(t)
	needArm64(t)
	for _, d := range computed {
		for op := lane.Add; op <= lane.Mod; op++ {
			if !lane.Ops[op].OperandDTypes.Has(d) {
				continue
			}
			in := []tensor.DType{d, d, d}[:lane.Ops[op].Args]
			if op == lane.Select {
				in[0] = tensor.Bool
			}
			each(t, 3, []tensor.DType{result(op, d)}, in, func(p *passTest, x []lane.Value) {
				if op == lane.Div && !d.IsFloat() {
					x[1] = p.Emit(lane.Or, d, x[1], p.Const(d, 1))
				}
				p.name = fmt.Sprint(op, " of ", p.name)
				p.storeOne(p.Emit(op, result(op, d), x...))
			})
		}
	}
}

func TestSelectConvert(t *testing.T) {
	needArm64(t)
	rounds := testsize.Short(2, 6)
	for _, to := range stored {
		for _, from := range stored {
			each(t, rounds, []tensor.DType{to}, []tensor.DType{from}, func(p *passTest, x []lane.Value) {
				p.storeOne(p.Emit(lane.Convert, to, x[0]))
			})
			if lane.Ops[lane.Rint].OperandDTypes.Has(from) {
				each(t, rounds, []tensor.DType{to}, []tensor.DType{from}, func(p *passTest, x []lane.Value) {
					p.name = "rounded " + p.name
					p.storeOne(p.Emit(lane.Convert, to, p.Emit(lane.Rint, from, x[0])))
				})
			}
		}
	}
}

// TestSelectBounded tests conversions of numbers with constant bounds.
func TestSelectBounded(t *testing.T) {
	needArm64(t)
	bound := func(x float32) uint64 { return uint64(math.Float32bits(x)) }
	for _, to := range []tensor.DType{tensor.Uint8, tensor.Int8, tensor.Int16, tensor.Uint16, tensor.Int32} {
		for _, limits := range [][3]float32{{0, 255, -5}, {-128, 127, 3e9}, {-1e10, 3, 0},
			{-3, 1 << 31, -4}} {
			each(t, 4, []tensor.DType{to}, []tensor.DType{tensor.Float32}, func(p *passTest, x []lane.Value) {
				y := x[0]
				for k, op := range []lane.Op{lane.Max, lane.Min, lane.Max} {
					y = p.Emit(op, tensor.Float32, y, p.Const(tensor.Float32, bound(limits[k])))
				}
				p.storeOne(p.Emit(lane.Convert, to, y))
			})
		}
	}
}

// TestSelectLookup tests tables of all periods, alone and in groups with the same indices.
func TestSelectLookup(t *testing.T) {
	needArm64(t)
	var tables [6][32]float32
	for k := range tables {
		for n := range tables[k] {
			tables[k][n] = float32(100*k + n%[]int{32, 4, 16, 32, 8, 32}[k])
		}
	}
	for count := 1; count <= len(tables); count++ {
		out := slices.Repeat([]tensor.DType{tensor.Float32}, count)
		each(t, 1, out, []tensor.DType{tensor.Float32}, func(p *passTest, x []lane.Value) {
			var y []lane.Value
			for k := range count {
				y = append(y, p.Lookup(&tables[k], x[0]))
			}
			for k := range count {
				p.Store(k, y[k], lane.None)
			}
		})
	}
}

// TestSelectRandom tests random loops of operations on values of all dtypes.
func TestSelectRandom(t *testing.T) {
	needArm64(t)
	for seed := range testsize.Short[uint64](40, 80) {
		rng := rand.New(rand.NewPCG(seed, 1))
		one := func(list []tensor.DType) tensor.DType { return list[rng.IntN(len(list))] }
		out, in := []tensor.DType{one(stored), one(stored)}, []tensor.DType{one(stored), one(stored), one(stored)}
		p, values := newTest(t, rng, out, in, rng.IntN(8))
		p.name = fmt.Sprint("seed ", seed, ": ", p.name)
		of := func(d tensor.DType) lane.Value {
			if rng.IntN(4) == 0 {
				special := jittest.EdgeCases(d)
				var bits uint64
				copy((*[8]byte)(unsafe.Pointer(&bits))[:d.Size()], special[rng.IntN(len(special)/d.Size())*d.Size():])
				return p.Const(d, bits)
			}
			v := values[rng.IntN(len(values))]
			if p.Type(v).DType == d {
				return v
			}
			return p.Emit(lane.Convert, d, v)
		}
		for range 3 + rng.IntN(20) {
			d, op := one(computed), lane.Add+lane.Op(rng.IntN(int(lane.Mod-lane.Add)+1))
			if !lane.Ops[op].OperandDTypes.Has(d) {
				continue
			}
			args := []lane.Value{of(d), of(d), of(d)}[:lane.Ops[op].Args]
			if op == lane.Select {
				args[0] = of(tensor.Bool)
			}
			if op == lane.Div && !d.IsFloat() {
				args[1] = p.Emit(lane.Or, d, args[1], p.Const(d, 1))
			}
			values = append(values, p.Emit(op, result(op, d), args...))
		}
		results := []lane.Value{p.Remask(of(out[0]), 1), p.Remask(of(out[1]), 1)}
		for k, v := range results {
			p.Store(k, v, lane.None)
		}
		p.run()
	}
}
