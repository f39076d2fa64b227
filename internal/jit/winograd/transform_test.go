//go:build linux || darwin

package winograd

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"

	"github.com/graphrun/graphrun/internal/jit"
	"github.com/graphrun/graphrun/internal/jit/jittest"
	"github.com/graphrun/graphrun/internal/jit/tile"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/internal/testsize"
)

// TestOperands compares the code with an interpretation of the block, bit by bit, with tiles next to inaccessible
// memory.
func TestOperands(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, cpu := range jittest.InstructionSets(t, machine.Portable) {
		for _, f := range forms() {
			for range testsize.Short(25, 60) {
				n := f.N()
				p := Part{r.IntN(3), r.IntN(3), 0, 0}
				p.RowEnd, p.ColEnd = p.Row+1+r.IntN(n-p.Row), p.Col+1+r.IntN(n-p.Col)
				checkOperands(t, r, cpu, f, p, 1+r.IntN(40), 1+r.IntN(4))
			}
			checkOperands(t, r, cpu, f, Part{0, 0, f.N(), f.N()}, 600*Lanes(cpu)+3, 3)
		}
	}
}

func checkOperands(t *testing.T, r *rand.Rand, cpu machine.Features, f Form, p Part, channels, tiles int) {
	t.Helper()
	n, lanes := f.N(), Lanes(cpu)
	code, err := f.CompileInput(cpu, p, channels%lanes)
	if err != nil {
		t.Fatal(err)
	}
	width := p.ColEnd - p.Col + (tiles-1)*f.M
	image := guarded[float32](t, (p.RowEnd-p.Row)*width*channels)
	for i := range image {
		image[i] = r.Float32() - 0.5
	}
	room := (channels + lanes - 1) / lanes * lanes
	points := guarded[float32](t, f.Points()*tiles*room)
	from := TileArray{Ptr: unsafe.Pointer(&image[0]), Row: width * channels * 4, Col: channels * 4,
		Tile: f.M * channels * 4}
	to := TileArray{Ptr: unsafe.Pointer(&points[0]), Row: n * tiles * room * 4, Col: tiles * room * 4, Tile: room * 4}
	if err := code.Run(new(jit.Args), to, from, nil, channels, tiles); err != nil {
		t.Fatal(err)
	}
	b := f.inputBlock(p)
	for tile := range tiles {
		for c := range channels {
			b.evaluate(func(row, col int) float32 { return image[(row*width+tile*f.M+col)*channels+c] }, 0, nil,
				func(v float32, row, col int) {
					if got := points[((row*n+col)*tiles+tile)*room+c]; math.Float32bits(got) != math.Float32bits(v) {
						t.Fatalf("%v %v %v: point %d, %d of tile %d, channel %d of %d: %v, want %v", cpu, f, p, row, col, tile, c,
							channels, got, v)
					}
				})
		}
	}
}

// TestWindows compares the code that transforms weights with an interpretation of the block, bit by bit.
func TestWindows(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	for _, cpu := range jittest.InstructionSets(t, machine.Portable) {
		for _, f := range forms() {
			code, err := f.CompileWeights(cpu)
			if err != nil {
				t.Fatal(err)
			}
			n, outChannels, inChannels := f.N(), 2*Lanes(cpu), 5
			windows := guarded[float32](t, inChannels*9*outChannels)
			for i := range windows {
				windows[i] = r.Float32() - 0.5
			}
			points := guarded[float32](t, f.Points()*inChannels*outChannels)
			from := TileArray{Ptr: unsafe.Pointer(&windows[0]), Row: 3 * outChannels * 4, Col: outChannels * 4,
				Tile: 9 * outChannels * 4}
			to := TileArray{Ptr: unsafe.Pointer(&points[0]), Row: n * inChannels * outChannels * 4,
				Col: inChannels * outChannels * 4, Tile: outChannels * 4}
			if err := code.Run(new(jit.Args), to, from, nil, outChannels, inChannels); err != nil {
				t.Fatal(err)
			}
			for i := range inChannels * outChannels {
				in, out := i/outChannels, i%outChannels
				var g [9]float32
				for k := range g {
					g[k] = windows[(in*9+k)*outChannels+out]
				}
				for point, want := range f.transformWeights(g) {
					if got := points[point*inChannels*outChannels+i]; math.Float32bits(got) != math.Float32bits(want) {
						t.Fatalf("%v %v: point %d, channels %d and %d: %v, want %v", cpu, f, point, in, out, got, want)
					}
				}
			}
		}
	}
}

// TestProducts compares the code that transforms weights and multiplies by them with an interpretation, bit by bit.
func TestProducts(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 12))
	f := Form{M: 4}
	for _, cpu := range jittest.InstructionSets(t, machine.Portable) {
		if !SupportsProducts(cpu) {
			continue
		}
		for trial := range 8 * ProductTiles {
			tiles, channels, lanes := 1+trial%ProductTiles, 1+r.IntN(20), Lanes(cpu)
			code, err := CompileProducts(cpu, tiles)
			if err != nil {
				t.Fatal(err)
			}
			windows, in := guarded[float32](t, channels*9*lanes), guarded[float32](t, f.Points()*tiles*channels)
			out := guarded[float32](t, f.Points()*tiles*lanes)
			for _, operand := range [][]float32{windows, in, out} {
				for i := range operand {
					operand[i] = r.Float32() - 0.5
				}
			}
			want := slices.Clone(out)
			arrays := ProductArrays{In: unsafe.Pointer(&in[0]), Out: unsafe.Pointer(&out[0]),
				Windows: unsafe.Pointer(&windows[0]), InPoint: 4 * tiles * channels, OutPoint: 4 * tiles * lanes,
				InTile: 4 * channels, Channels: channels}
			if err := code.Run(new(jit.Args), &arrays); err != nil {
				t.Fatal(err)
			}
			for i := range channels * lanes {
				channel, lane := i/lanes, i%lanes
				var g [9]float32
				for k := range g {
					g[k] = windows[(channel*9+k)*lanes+lane]
				}
				points := f.transformWeights(g)
				for k := range f.Points() * tiles {
					x := in[k*channels+channel]
					sum := &want[k*lanes+lane]
					*sum = float32(math.FMA(float64(x), float64(points[k/tiles]), float64(*sum)))
				}
			}
			for i := range want {
				if math.Float32bits(out[i]) != math.Float32bits(want[i]) {
					t.Fatalf("%d tiles, %d channels: product %d is %v, want %v", tiles, channels, i, out[i], want[i])
				}
			}
		}
	}
}

// relu is an epilogue of one operation.
var relu = []tile.EpilogueStep{{Op: tile.AtLeast}}

// epilogues returns the epilogues that are tested: none, each operation alone, and several operations.
var epilogues = [][]tile.EpilogueStep{nil, relu, {{Op: tile.AtMost, Upper: 0.25}}, {{Op: tile.Scale, Lower: -1.5}},
	{{Op: tile.AddTile}},
	{{Op: tile.MulTile}}, {{Op: tile.AddLanes}}, {{Op: tile.MulLanes}},
	{{Op: tile.MulLanes, Operand: 1}, {Op: tile.AddTile}, {Op: tile.AtLeast, Lower: -0.125},
		{Op: tile.MulTile, Operand: 2}},
	{{Op: tile.AddLanes, Operand: 2}, {Op: tile.MulLanes}, {Op: tile.AddLanes, Operand: 2}, {Op: tile.AtMost, Upper: 6}}}

// TestResults compares the code with an interpretation of the block, bit by bit, with operands next to inaccessible
// memory.
func TestResults(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for _, cpu := range jittest.InstructionSets(t, machine.Portable) {
		for _, f := range forms() {
			for i := range testsize.Short(max(40, len(epilogues)), 120) {
				x := resultCheck{r: r, cpu: cpu, form: f, rows: 1 + r.IntN(f.M), cols: 1 + r.IntN(f.M), bias: i%2 == 0,
					channels: 1 + r.IntN(40), tiles: 1 + r.IntN(4), epilogue: epilogues[i%len(epilogues)]}
				x.run(t)
			}
			long := resultCheck{r: r, cpu: cpu, form: f, rows: f.M, cols: f.M, channels: 200*Lanes(cpu) + 3, tiles: 7,
				epilogue: epilogues[8]}
			long.run(t)
		}
	}
}

// TestBoundsKeepValues checks that bounds keep NaNs, and zeros with their signs.
func TestBoundsKeepValues(t *testing.T) {
	for _, cpu := range jittest.InstructionSets(t, machine.Portable) {
		steps := []tile.EpilogueStep{{Op: tile.AtLeast}, {Op: tile.AtMost}}
		code, err := Form{M: 2}.CompileOutput(cpu, 1, 1, false, steps, 0)
		if err != nil {
			t.Fatal(err)
		}
		lanes := Lanes(cpu)
		points, image := make([]float32, 16*lanes), make([]float32, lanes)
		points[0] = float32(math.NaN())
		for p := range 16 { // signs that make the result -0: the transform subtracts the points of row 0 and of column 0
			if isFirstRow, isFirstCol := p/4 == 0, p%4 == 0; isFirstRow == isFirstCol {
				points[p*lanes+2] = float32(math.Copysign(0, -1))
			}
		}
		from := TileArray{Ptr: unsafe.Pointer(&points[0]), Row: 16 * lanes, Col: 4 * lanes}
		if err := code.Run(new(jit.Args), TileArray{Ptr: unsafe.Pointer(&image[0])}, from, nil, lanes, 1); err != nil {
			t.Fatal(err)
		}
		if image[0] == image[0] || 1/image[1] < 0 || 1/image[2] > 0 {
			t.Errorf("%v: bounds make %v of NaN, 0 and -0", cpu, image[:3])
		}
	}
}

// resultCheck is a transform to results with random operands.
type resultCheck struct {
	r               *rand.Rand
	cpu             machine.Features
	form            Form
	rows, cols      int
	bias            bool
	epilogue        []tile.EpilogueStep
	channels, tiles int
}

func (x *resultCheck) fill(t *testing.T, n int) []float32 {
	out := guarded[float32](t, n)
	for i := range out {
		out[i] = x.r.Float32() - 0.5
	}
	return out
}

func (x *resultCheck) run(t *testing.T) {
	t.Helper()
	f, channels, tiles := x.form, x.channels, x.tiles
	n, lanes := f.N(), Lanes(x.cpu)
	code, err := f.CompileOutput(x.cpu, x.rows, x.cols, x.bias, x.epilogue, channels%lanes)
	if err != nil {
		t.Fatal(err)
	}
	room := (channels + lanes - 1) / lanes * lanes
	points, add := x.fill(t, f.Points()*tiles*room), x.fill(t, channels)
	width := (tiles-1)*f.M + x.cols
	image := x.fill(t, x.rows*width*channels)
	a := new(jit.Args)
	operands := make([][]float32, 3)
	byLanes := map[int]bool{}
	for _, s := range x.epilogue {
		if operands[s.Operand] != nil {
			continue
		}
		byLanes[s.Operand] = s.Op == tile.AddLanes || s.Op == tile.MulLanes
		size := len(image)
		if byLanes[s.Operand] {
			size = channels
		}
		operands[s.Operand] = x.fill(t, size)
		a.Ptr[FirstEpilogueOperand+s.Operand] = unsafe.Add(unsafe.Pointer(&operands[s.Operand][0]), -64)
		a.Row[FirstEpilogueOperand+s.Operand] = 64
	}
	var sums unsafe.Pointer
	if x.bias {
		sums = unsafe.Pointer(&add[0])
	} else {
		clear(add)
	}
	from := TileArray{Ptr: unsafe.Pointer(&points[0]), Row: n * tiles * room * 4, Col: tiles * room * 4, Tile: room * 4}
	to := TileArray{Ptr: unsafe.Pointer(&image[0]), Row: width * channels * 4, Col: channels * 4,
		Tile: f.M * channels * 4}
	want := slices.Clone(image)
	b := f.outputBlock(x.rows, x.cols, x.bias, x.epilogue)
	for tile := range tiles {
		for c := range channels {
			at := func(row, col int) int { return (row*width+tile*f.M+col)*channels + c }
			b.evaluate(func(row, col int) float32 { return points[((row*n+col)*tiles+tile)*room+c] }, add[c],
				func(o operation) float32 {
					if byLanes[o.operand] {
						return operands[o.operand][c]
					}
					return operands[o.operand][at(o.row, o.col)]
				}, func(v float32, row, col int) { want[at(row, col)] = v })
		}
	}
	if err := code.Run(a, to, from, sums, channels, tiles); err != nil {
		t.Fatal(err)
	}
	for i := range want {
		if math.Float32bits(image[i]) != math.Float32bits(want[i]) {
			t.Fatalf("%+v: element %d is %v, want %v", x, i, image[i], want[i])
		}
	}
}

// guarded returns memory that ends at an inaccessible page.
func guarded[T any](t *testing.T, n int) []T {
	t.Helper()
	var one T
	size := n * int(unsafe.Sizeof(one))
	bytes := jittest.Guarded(t, size)
	return unsafe.Slice((*T)(unsafe.Pointer(&bytes[len(bytes)-size])), n)
}

// TestRegisters checks that no value is spilled with more than 30 registers.
func TestRegisters(t *testing.T) {
	for _, cpu := range []machine.Features{machine.AVX512, machine.NEON} {
		for _, f := range forms() {
			for _, b := range []*block{f.inputBlock(Part{0, 0, f.N(), f.N()}), f.weightBlock(),
				f.outputBlock(f.M, f.M, true, relu)} {
				c, err := newCodeGen(cpu, 0, false, false)
				if err != nil {
					t.Fatal(err)
				}
				if slots, err := c.emitBlock(b, false); slots > 0 || err != nil {
					t.Errorf("%v, %v puts %d values aside: %v", cpu, f, slots, err)
				}
			}
		}
	}
}
