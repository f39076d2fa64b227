package iter_test

import (
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/internal/testsize"
	"github.com/graphrun/graphrun/iter"
	"github.com/graphrun/graphrun/tensor"
)

// ordered is float32 in memory with the dimensions in an order, slowest first.
func ordered(shape []int, order ...int) tensor.Meta {
	m := tensor.Meta{DType: tensor.Float32, Shape: shape, Strides: make([]int, len(shape))}
	step := 1
	for k := len(order) - 1; k >= 0; k-- {
		m.Strides[order[k]] = step
		step *= shape[order[k]]
	}
	return m
}

func sumOf(t *testing.T, out, x, y tensor.Meta) iter.Prepared {
	t.Helper()
	it, err := iter.Binary(iter.OperandOfMeta(out), iter.OperandOfMeta(x),
		iter.OperandOfMeta(y)).CheckMemOverlap(false).Build()
	require.NoError(t, err)
	p, err := it.Prepare(mulAdd(t, tensor.Float32))
	require.NoError(t, err)
	return p
}

func TestTilePlans(t *testing.T) {
	square, cube := []int{4096, 4096}, []int{256, 256, 256}
	images := []int{32, 64, 56, 56}
	nhwc, rows := ordered(images, 0, 2, 3, 1), ordered(square, 0, 1)
	still := rows
	still.Strides = []int{0, 1}
	for _, c := range []struct {
		name               string
		out, x, y          tensor.Meta
		inner, order, size []int
		tasks              int
	}{
		{"transposed", rows, rows, ordered(square, 1, 0), []int{0, 1}, []int{1, 0}, []int{256, 128}, 32},
		// The walk is channels, pixels, images. What is turned of the second operand is for all images of a task.
		{"images", nhwc, nhwc, ordered(images[1:], 0, 1, 2), []int{0, 1}, []int{2, 1, 0}, []int{64, 448, 1}, 42},
		// The cache lines of the second operand lie along the slowest dimension.
		{"last", ordered(cube, 0, 1, 2), ordered(cube, 0, 1, 2), ordered(cube, 1, 2, 0), []int{0, 1},
			[]int{1, 0}, []int{256, 128}, 32},
		{"reversed", ordered(cube, 0, 1, 2), ordered(cube, 0, 1, 2), ordered(cube, 2, 1, 0), []int{0, 2},
			[]int{2, 0, 1}, []int{256, 1, 128}, 32},
		{"two orders", ordered(cube, 0, 1, 2), ordered(cube, 2, 1, 0), ordered(cube, 0, 2, 1), []int{0, 2, 1},
			[]int{2, 1, 0}, []int{128, 16, 16}, 32},
		{"one order", rows, rows, rows, nil, nil, nil, 512},
		{"an output that overlaps itself", still, rows, ordered(square, 1, 0), nil, nil, nil, 64},
	} {
		p := sumOf(t, c.out, c.x, c.y)
		inner, order, size := iter.Tiles(p)
		assert.Equal(t, c.inner, inner, c.name)
		assert.Equal(t, c.order, order, c.name)
		assert.Equal(t, c.size, size, c.name)
		assert.Equal(t, c.tasks, p.Chunks(0), c.name)
	}
}

// Tasks are for several workers where there is work for them, and no larger where there is much.
func TestTileTasks(t *testing.T) {
	for _, c := range []struct{ rows, cols, grain, tasks int }{
		{16, 16, 0, 1}, {256, 256, 0, 2}, {256, 256, 1 << 12, 16}, {1024, 1024, 0, 32}, {3, 1 << 20, 0, 33},
		{1 << 20, 3, 0, 33}, {1 << 14, 1 << 14, 0, 256}, {100, 100, 1, 4},
	} {
		shape := []int{c.rows, c.cols}
		p := sumOf(t, ordered(shape, 0, 1), ordered(shape, 0, 1), ordered(shape, 1, 0))
		assert.Equal(t, c.tasks, p.Chunks(c.grain), "%d by %d", c.rows, c.cols)
	}
}

// There is nothing to plan, or to do, where there are no elements.
func TestNoTiles(t *testing.T) {
	for _, shape := range [][]int{{0, 5}, {5, 0}, {0, 0}, {300, 0, 20}, {0, 300, 20}} {
		var order []int
		for k := len(shape) - 1; k >= 0; k-- {
			order = append(order, k)
		}
		x, y := ordered(shape, order...), tensor.New(tensor.Float32, shape...)
		x.Strides[0], x.Strides[1] = 1, 300
		p := sumOf(t, y, y, x)
		assert.Zero(t, p.Chunks(0))
		assert.NoError(t, p.RunAll(nil, make([]unsafe.Pointer, 3)))
	}
}

func TestTileMisuse(t *testing.T) {
	shape := []int{100, 200}
	rows, transposed := ordered(shape, 0, 1), ordered(shape, 1, 0)
	p := sumOf(t, rows, rows, transposed)
	var none iter.Prepared
	assert.Zero(t, none.Chunks(0))
	assert.Error(t, none.RunChunk(nil, nil, 0, 0))
	assert.Error(t, p.RunChunk(nil, make([]unsafe.Pointer, 2), 0, 0))
	assert.Error(t, p.RunChunk(nil, make([]unsafe.Pointer, 3), 0, 0))
	ptrs := []unsafe.Pointer{tensor.Empty(rows).Pointer(), tensor.Empty(rows).Pointer(),
		tensor.Empty(transposed).Pointer()}
	assert.NoError(t, p.RunChunk(nil, ptrs, 0, 0))
	assert.Panics(t, func() { _ = p.RunChunk(nil, ptrs, -1, 0) })
	assert.Panics(t, func() { _ = p.RunChunk(nil, ptrs, p.Chunks(0), 0) })

	var cursor iter.Cursor
	assertNoAllocs(t, func() { _ = p.RunChunk(&cursor, ptrs, 0, 0) })
	assertNoAllocs(t, func() { _ = p.RunAll(&cursor, ptrs) })
}

// assertNoAllocs holds a function to taking no memory. Under the race detector pools forget what they have, by intent.
func assertNoAllocs(t *testing.T, f func()) {
	t.Helper()
	if n := testing.AllocsPerRun(20, f); !testsize.Race {
		assert.Zero(t, n)
	}
}

// A task takes no memory of its own, of however many dimensions it is.
func TestTasksOfManyDimensions(t *testing.T) {
	shape, order := make([]int, 11), []int{5, 10, 3, 8, 1, 6, 9, 0, 4, 2, 7}
	for d := range shape {
		shape[d] = 3
	}
	rows, mixed := ordered(shape, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10), ordered(shape, order...)
	p := sumOf(t, rows, rows, mixed)
	require.Greater(t, p.Chunks(1<<12), 1)
	ptrs := []unsafe.Pointer{tensor.Empty(rows).Pointer(), tensor.Empty(rows).Pointer(), tensor.Empty(mixed).Pointer()}
	var cursor iter.Cursor
	assertNoAllocs(t, func() { _ = p.RunChunk(&cursor, ptrs, 1, 1<<12) })
}
