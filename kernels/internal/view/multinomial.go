package view

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"unsafe"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/interrupt"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

type multinomialAttrs struct {
	NumSamples  sym.Int `attr:"num_samples" doc:"number of draws"`
	Replacement bool    `attr:"replacement" default:"false" doc:"allow drawing an index several times"`
	Seed        int     `attr:"seed" default:"0" range:"int64" doc:"seed of the random numbers"`
}

// Multinomial is torch.multinomial.
var Multinomial = kit.Define[*multinomialAttrs](graph.Op{
	Semantics: graph.Semantics{
		Name: "multinomial",
		Doc: "Draws indices of elements for each row of self, a vector or matrix. The probability of an " +
			"index is proportional to its element.",
		Params: []graph.Param{kit.Self},
		Infer: func(call *graph.Call) ([]graph.Result, error) {
			attrs, self := kit.Attrs[*multinomialAttrs](call), call.Type(0)
			switch rank := self.Rank(); {
			case rank != 1 && rank != 2:
				return nil, errors.New("prob_dist must be 1 or 2 dim")
			case !self.DType.IsFloat():
				return nil, fmt.Errorf("multinomial only supports floating-point dtypes for input, got: %s", self.DType.TorchName())
			case !kit.SizeAtLeast(attrs.NumSamples, 1):
				return nil, errors.New("cannot sample n_sample <= 0 samples")
			case !attrs.Replacement && attrs.NumSamples.Gt(self.Shape[rank-1]).Holds():
				return nil, errors.New("cannot sample n_sample > prob_dist.size(-1) samples without replacement")
			}
			out, err := kit.FreshType(tensor.Int64, kit.ReplaceSizes(self.Shape, self.Rank()-1, attrs.NumSamples))
			return call.NewResult(out), err
		},
		Ref:      refMultinomial,
		Examples: kit.OneExample(kit.F32(0, 3), graph.Attrs{"num_samples": 3, "replacement": true}),
	},
	Facts: graph.Facts{WritesAnyDenseLayout: true},
	Lowerings: graph.Lowerings{
		Compile: func(c *graph.Call) (*graph.Kernel, error) {
			if c.Out[0].Numel() == 0 {
				return &graph.Kernel{}, nil
			}
			return newMultinomial(c).kernel(), nil
		},
	},
})

// refMultinomial is the reference of multinomial.
func refMultinomial(c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	attrs, self := kit.Attrs[*multinomialAttrs](c), in[0]
	lastDim := self.Rank() - 1
	shape := slices.Clone(self.Shape)
	shape[lastDim] = kit.KnownSize(attrs.NumSamples)
	out, rows := tensor.Zeros(tensor.Int64, shape...), tensor.Numel(shape[:lastDim])
	for row := range rows {
		weights := make([]float64, self.Shape[lastDim])
		// indexOf returns the index of element i of the row: [row, i], or [i] for a vector.
		indexOf := func(i int) []int { return append([]int{row}[:lastDim], i) }
		for i := range weights {
			weights[i] = self.At(indexOf(i)...).Float()
		}
		tree := make(weightTree, 2*leafCount(len(weights)))
		err := tree.build(context.Background(), weights)
		for drawIndex := 0; drawIndex < shape[lastDim] && err == nil; drawIndex++ {
			var selected int
			if selected, err = attrs.draw(tree, row, drawIndex); err == nil {
				out.Set(tensor.IntScalar(int64(selected)), indexOf(drawIndex)...)
			}
		}
		if err != nil {
			return nil, err
		}
	}
	return []*tensor.Tensor{out}, nil
}

// blockDraws is the maximum number of draws of a row that one chunk makes.
const blockDraws = 1 << 16

// drawsPerCheck is the number of draws between two checks of the context.
const drawsPerCheck = 1 << 12

// multinomial is a call of the op multinomial with known layouts.
type multinomial struct {
	*multinomialAttrs
	lines        *kit.LineSet       // rows of the operand (offset 0) and of the result (offset 1)
	toFloat64    tensor.ConvertFunc // converts weights to float64
	weightCount  int                // number of weights of a row
	weightStride int                // stride of weights, in bytes
	drawCount    int                // number of draws of a row
	outStride    int                // stride of draws in the result, in bytes
	treeBytes    int                // bytes of the weightTree of a row
}

// newMultinomial describes a call of the op multinomial.
func newMultinomial(c *graph.Call) *multinomial {
	operand, out := c.Meta(0), c.Out[0]
	lastDim := operand.Rank() - 1
	return &multinomial{multinomialAttrs: kit.Attrs[*multinomialAttrs](c),
		lines:       kit.NewLineSet(operand.Shape, lastDim, operand, out),
		toFloat64:   tensor.Converter(tensor.Float64, operand.DType),
		weightCount: operand.Shape[lastDim], weightStride: kit.ByteStride(operand, lastDim),
		drawCount: out.Shape[lastDim], outStride: kit.ByteStride(out, lastDim),
		treeBytes: 2 * leafCount(operand.Shape[lastDim]) * float64Bytes}
}

// kernel returns the kernel of the call. If a row has at most blockDraws draws, a chunk builds the tree of a row in the
// memory of the worker and makes all draws of the row.
func (p *multinomial) kernel() *graph.Kernel {
	if blocks := kit.DivUp(p.drawCount, blockDraws); blocks > 1 {
		return p.kernelOfBlocks(blocks)
	}
	run := func(mem *graph.Mem, row int) error {
		tree := weightTree(kit.SliceOf[float64](mem.WorkerScratch, 0, p.treeBytes/float64Bytes))
		if err := p.buildTree(mem, tree, row); err != nil {
			return err
		}
		const onlyBlock = 0
		return p.runBlock(mem, tree, row, onlyBlock)
	}
	return &graph.Kernel{WorkerScratch: p.treeBytes, Phases: []graph.Phase{{Chunks: p.lines.Count, Run: run}}}
}

// kernelOfBlocks returns the kernel for rows whose draws are divided into several blocks. A first phase builds the
// trees of all rows in the memory of the run. If draws are with replacement, the blocks are the chunks of one phase.
// Without replacement, each draw depends on the previous draws, so each block is a phase.
func (p *multinomial) kernelOfBlocks(blocks int) *graph.Kernel {
	rows := p.lines.Count
	tree := func(mem *graph.Mem, row int) weightTree {
		return weightTree(kit.SliceOf[float64](mem.Scratch, row*p.treeBytes, p.treeBytes/float64Bytes))
	}
	buildTree := func(mem *graph.Mem, row int) error { return p.buildTree(mem, tree(mem, row), row) }
	kernel := &graph.Kernel{Scratch: rows * p.treeBytes, Phases: []graph.Phase{{Chunks: rows, Run: buildTree}}}
	if p.Replacement {
		kernel.Phases = append(kernel.Phases, graph.Phase{Chunks: rows * blocks, Run: func(mem *graph.Mem, chunk int) error {
			return p.runBlock(mem, tree(mem, chunk/blocks), chunk/blocks, chunk%blocks)
		}})
		return kernel
	}
	for block := range blocks {
		kernel.Phases = append(kernel.Phases, graph.Phase{Chunks: rows, Run: func(mem *graph.Mem, row int) error {
			return p.runBlock(mem, tree(mem, row), row, block)
		}})
	}
	return kernel
}

// buildTree builds the tree of a row from the operand's elements.
func (p *multinomial) buildTree(mem *graph.Mem, tree weightTree, row int) error {
	weights := tree[len(tree)/2:][:p.weightCount] // the leaves
	if p.weightCount > 0 {
		src := unsafe.Add(mem.Ptrs[1], p.lines.Offsets(row)[0])
		kit.ForEachBlock(mem.Context, p.weightCount, func(begin, end int) {
			p.toFloat64(unsafe.Pointer(&weights[begin]), unsafe.Add(src, begin*p.weightStride), float64Bytes,
				p.weightStride, end-begin)
		})
	}
	return tree.build(mem.Context, weights)
}

// runBlock makes the draws of one block of a row and writes them to the result.
func (p *multinomial) runBlock(mem *graph.Mem, tree weightTree, row, block int) error {
	dst := unsafe.Add(mem.Ptrs[0], p.lines.Offsets(row)[1])
	for drawIndex := block * blockDraws; drawIndex < min((block+1)*blockDraws, p.drawCount); drawIndex++ {
		if drawIndex%drawsPerCheck == 0 {
			mem.CheckContext()
		}
		index, err := p.draw(tree, row, drawIndex)
		if err != nil {
			return err
		}
		*(*int64)(unsafe.Add(dst, drawIndex*p.outStride)) = int64(index)
	}
	return nil
}

// draw returns the index that a draw of a row selects. Without replacement, it clears the weight of this index.
func (attrs *multinomialAttrs) draw(tree weightTree, row, drawIndex int) (int, error) {
	sum := tree[1] // the root
	if !(sum > 0) {
		return 0, errors.New("invalid multinomial distribution (sum of probabilities <= 0)")
	}
	resultIndex := row*kit.KnownSize(attrs.NumSamples) + drawIndex // in row-major order
	index := tree.find(uniform(philox(uint64(resultIndex), uint64(attrs.Seed)), tensor.Float64) * sum)
	if !attrs.Replacement {
		tree.clearWeight(index)
	}
	return index, nil
}

// weightTree is a binary tree of the weights of a row and their sums. Node 1 is the root. Node i is the sum of its
// children 2i and 2i+1. The second half of the nodes are the weights. Changing a weight takes logarithmic time, and so
// does finding the index of a draw.
type weightTree []float64

// float64Bytes is the size of an element of a [weightTree].
const float64Bytes = 8

// leafCount returns the number of leaves of a tree for n weights: n rounded up to a power of two, at least 1.
func leafCount(n int) int { return 1 << bits.Len(uint(max(n, 1)-1)) }

// build sets the weights and computes the sums. weights may be the leaves of the same tree. build fails if a weight is
// negative, infinite or NaN, and panics as [interrupt.Check] does.
func (tree weightTree) build(ctx context.Context, weights []float64) error {
	leaves := len(tree) / 2
	for i, weight := range weights {
		if i%kit.CheckEvery == kit.CheckEvery-1 {
			interrupt.Check(ctx)
		}
		if !(weight >= 0) || math.IsInf(weight, 1) {
			return errors.New("probability tensor contains either `inf`, `nan` or element < 0")
		}
	}
	clear(tree[leaves+copy(tree[leaves:], weights):]) // leaves beyond the weights are 0
	for i := leaves - 1; i > 0; i-- {
		if i%kit.CheckEvery == kit.CheckEvery-1 {
			interrupt.Check(ctx)
		}
		tree[i] = tree[2*i] + tree[2*i+1]
	}
	return nil
}

// find returns the first index at which the cumulative sum of the weights exceeds u. The weight at this index is
// positive. u must be less than the sum of all weights.
func (tree weightTree) find(u float64) int {
	node := 1
	for node < len(tree)/2 {
		node *= 2
		// Rounding of the sums can make u too large. Do not descend to a sum of 0 in this case either.
		if leftSum := tree[node]; u >= leftSum && tree[node+1] > 0 {
			u -= leftSum
			node++
		}
	}
	return node - len(tree)/2
}

// clearWeight sets the weight at an index to 0.
func (tree weightTree) clearWeight(index int) {
	node := index + len(tree)/2
	for tree[node] = 0; node > 1; {
		node /= 2
		tree[node] = tree[2*node] + tree[2*node+1]
	}
}
