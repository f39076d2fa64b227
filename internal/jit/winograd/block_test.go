package winograd

import (
	"math"
	"math/rand/v2"
	"testing"
)

// evaluate interprets a block for one lane. operand returns epilogue operands; it may be nil.
func (b *block) evaluate(load func(row, col int) float32, bias float32, operand func(o operation) float32,
	store func(v float32, row, col int)) {
	v := make([]float32, len(b.operations))
	fma := func(x, y, z float32) float32 {
		return float32(math.FMA(float64(x), float64(y), float64(z))) // products of float32 are exact
	}
	for i, o := range b.operations {
		switch o.opcode {
		case opConst:
			v[i] = math.Float32frombits(o.constBits)
		case opLoad:
			v[i] = load(o.row, o.col)
		case opBias:
			v[i] = bias
		case opAdd:
			v[i] = v[o.x] + v[o.y]
		case opSub:
			v[i] = v[o.x] - v[o.y]
		case opMulConst:
			v[i] = float32(v[o.k] * v[o.x])
		case opFMA:
			v[i] = fma(v[o.k], v[o.x], v[o.y])
		case opFNMA:
			v[i] = fma(-v[o.k], v[o.x], v[o.y])
		case opTileOperand, opChannelOperand:
			v[i] = operand(o)
		case opMul:
			v[i] = v[o.x] * v[o.y]
		case opMax:
			if v[i] = v[o.x]; v[o.k] > v[i] {
				v[i] = v[o.k]
			}
		case opMin:
			if v[i] = v[o.x]; v[o.k] < v[i] {
				v[i] = v[o.k]
			}
		case opStore:
			store(v[o.x], o.row, o.col)
		}
	}
}

// TestConstants checks that constants of equal bits share an operation, and that -0 and 0 do not.
func TestConstants(t *testing.T) {
	b := newBlock()
	negativeZero := b.constant(math.Copysign(0, -1))
	if b.constant(0) == negativeZero || b.constant(math.Copysign(0, -1)) != negativeZero {
		t.Errorf("constants -0 and 0 of %v", b.operations)
	}
}

func forms() []Form { return []Form{{M: 2}, {M: 4}} }

// TestConvolution transforms pixels and weights to points, multiplies them and transforms the products back, and
// compares the result with a direct convolution, for all parts of tiles.
func TestConvolution(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, f := range forms() {
		n := f.N()
		for trial := range 200 {
			p := Part{r.IntN(n), r.IntN(n), 0, 0}
			p.RowEnd, p.ColEnd = p.Row+1+r.IntN(n-p.Row), p.Col+1+r.IntN(n-p.Col)
			var d [6][6]float32
			var g [9]float32
			for i := p.Row; i < p.RowEnd; i++ {
				for j := p.Col; j < p.ColEnd; j++ {
					d[i][j] = r.Float32() - 0.5
				}
			}
			for i := range 9 {
				g[i] = r.Float32() - 0.5
			}
			points := map[[2]int]float32{}
			f.inputBlock(p).evaluate(func(row, col int) float32 { return d[p.Row+row][p.Col+col] }, 0, nil,
				func(v float32, row, col int) { points[[2]int{row, col}] = v })
			if len(points) != f.Points() {
				t.Fatalf("%v %v: %d points", f, p, len(points))
			}
			u := f.transformWeights(g)
			rows, cols, bias := 1+r.IntN(f.M), 1+r.IntN(f.M), r.Float32()
			stored := 0
			f.outputBlock(rows, cols, trial%2 == 0, nil).evaluate(func(row, col int) float32 {
				return points[[2]int{row, col}] * u[row*n+col]
			}, bias, nil, func(v float32, row, col int) {
				stored++
				want := 0.0
				if trial%2 == 0 {
					want = float64(bias)
				}
				for i := range 9 {
					want += float64(d[row+i/3][col+i%3]) * float64(g[i])
				}
				if math.Abs(float64(v)-want) > 4e-6 {
					t.Errorf("%v %v: %v at %d, %d, want %v", f, p, v, row, col, want)
				}
			})
			if stored != rows*cols {
				t.Errorf("%v: %d of %dx%d results", f, stored, rows, cols)
			}
		}
	}
}

// transformWeights interprets the transform of the weights of a window.
func (f Form) transformWeights(g [9]float32) []float32 {
	points := make([]float32, f.Points())
	f.weightBlock().evaluate(func(row, col int) float32 { return g[row*3+col] }, 0, nil,
		func(v float32, row, col int) { points[row*f.N()+col] = v })
	return points
}

// TestWeights compares the transform of weights with its definition: at a point, the polynomial of three weights; at
// infinity, the last weight.
func TestWeights(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	for _, f := range forms() {
		var rows [][3]float64
		for _, p := range map[int][]float64{2: {0, 1, -1}, 4: {0, pointA, -pointA, pointB, -pointB}}[f.M] {
			rows = append(rows, [3]float64{1, p, p * p})
		}
		rows = append(rows, [3]float64{0, 0, 1})
		for range 20 {
			var g [9]float32
			for i := range 9 {
				g[i] = float32(r.NormFloat64())
			}
			u, n := f.transformWeights(g), f.N()
			for i := range n * n {
				want, scale := 0.0, 0.0
				for k := range 9 {
					term := rows[i/n][k/3] * float64(g[k]) * rows[i%n][k%3]
					want, scale = want+term, scale+math.Abs(term)
				}
				if math.Abs(float64(u[i])-want) > 2e-7*scale {
					t.Fatalf("%v: point %d is %v, want %v", f, i, u[i], want)
				}
			}
		}
	}
}
