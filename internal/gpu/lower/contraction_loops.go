package lower

import (
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/gpu/ir"
)

// This file sorts the loops of a contraction into the lists rows, cols, sum and batch, and emits the
// code that computes offsets from the indices of the loops of a list.

// loop is a loop of a list. It has a Size, and strides in elements: Out in the result, A and B in the factors, and Add
// in the addend.
type loop struct {
	graph.ContractionLoop
	number int // its index in graph.Contraction.Loops
}

// size returns the number of iterations of nested loops.
func size(loops []loop) int {
	product := 1
	for _, loop := range loops {
		product *= loop.Size
	}
	return product
}

// setLoops sorts the loops into rows, cols, sum and batch. It merges adjacent loops if one loop can replace them and
// they are not loops of windows. It returns the error of checkStrides.
func (c *contraction) setLoops() error {
	if err := c.checkStrides(); err != nil {
		return err
	}
	inWindow := map[int]bool{}
	for _, window := range c.Windows {
		inWindow[window.Result], inWindow[window.Tap] = true, true
	}
	// add adds loop i to a list, or merges it with the last loop of the list.
	add := func(list *[]loop, i int) {
		added := loop{c.Loops[i], i}
		if last := len(*list) - 1; last >= 0 {
			faster := &(*list)[last]
			if !inWindow[i] && !inWindow[faster.number] && continues(added, *faster) {
				faster.Size *= added.Size
				return
			}
		}
		*list = append(*list, added)
	}
	for i, loop := range slices.Backward(c.Loops) {
		switch {
		case loop.Size == 1 && !inWindow[i]: // omit the loop, because its index is always 0
		case loop.Summed:
			add(&c.sum, i)
		case inWindow[i] || loop.B == 0 && loop.A != 0: // window positions, or a loop over A but not B
			add(&c.rows, i)
		case loop.A == 0:
			add(&c.cols, i)
		default:
			add(&c.batch, i)
		}
	}
	return nil
}

// checkStrides returns an error if a stride is negative or an operand is too large.
func (c *contraction) checkStrides() error {
	var spans [4]int // the greatest offset of an element in the result, A, B and the addend
	for _, loop := range c.Loops {
		for operand, stride := range []int{loop.Out, loop.A, loop.B, loop.Add} {
			spans[operand] += (loop.Size - 1) * stride
			if stride < 0 || spans[operand] >= 1<<28 { // the code computes offsets as uint32 numbers
				return fmt.Errorf("gpu: a product with a negative stride, or with an operand that spans more than "+
					"2^28 elements, is %w", ErrUnsupported)
			}
		}
	}
	return nil
}

// continues reports whether a loop continues the strides of the next faster loop, so that one loop can replace both.
func continues(slower, faster loop) bool {
	return slower.Out == faster.Size*faster.Out && slower.A == faster.Size*faster.A &&
		slower.B == faster.Size*faster.B && slower.Add == faster.Size*faster.Add
}

// offsets returns the offset in an operand, in elements: the sum over the loops of index * stride. Unlike offset, it
// returns a constant if the sum is always 0.
func (c *contraction) offsets(loops []loop, index []ir.Value, stride func(loop) int) ir.Value {
	var shape, strides []int
	for _, loop := range loops {
		shape, strides = append(shape, loop.Size), append(strides, stride(loop))
	}
	if sum := c.offset(index, shape, strides); sum != ir.None {
		return sum
	}
	return c.u32(0)
}

func strideA(l loop) int   { return l.A }
func strideB(l loop) int   { return l.B }
func strideOut(l loop) int { return l.Out }
func strideAdd(l loop) int { return l.Add }

// splitLoops splits a linear index over the loops into an index for each loop.
func (c *contraction) splitLoops(index ir.Value, loops []loop) []ir.Value {
	var shape []int
	for _, loop := range loops {
		shape = append(shape, loop.Size)
	}
	return c.indexInShape(index, shape)
}
