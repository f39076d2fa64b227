package view

import (
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/copies"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// Rates lists the rates of copies. A rate is the time of one unit of work. Package calibrate runs the calls of a rate
// to measure it. The shapes are chosen so that a call spends most of its time on this unit of work.
func Rates() []graph.Rate {
	// transposed copies a channels-last image to row-major order.
	transposed := func(dtype tensor.DType, shape ...int) graph.RateCall {
		return graph.RateCall{Op: "clone", Attrs: graph.Attrs{"memory_format": "contiguous"},
			In: []tensor.Meta{channelsLastMeta(dtype, shape...)}}
	}
	// permuted copies a view with permuted dimensions to row-major order.
	permuted := func(shape []int, order ...int) graph.RateCall {
		meta, err := kit.F32(shape...).Permute(order)
		if err != nil {
			panic("kernels: invalid order of dimensions of a calibration call: " + err.Error())
		}
		return graph.RateCall{Op: "clone", Attrs: graph.Attrs{"memory_format": "contiguous"}, In: []tensor.Meta{meta}}
	}
	sliced := kit.F32(256, 60) // contiguous rows with gaps between them
	sliced.Strides = []int{64, 1}
	stepped := kit.F32(64, 256) // every second element of each row
	stepped.Strides = []int{512, 2}
	calls := map[string][]graph.RateCall{
		// Rows are copied as a whole.
		copies.RateRow: {{Op: "clone", Attrs: graph.Attrs{"memory_format": "contiguous"}, In: []tensor.Meta{sliced}},
			{Op: "cat", Attrs: graph.Attrs{"dim": 1}, In: []tensor.Meta{kit.F32(1024, 24), kit.F32(1024, 24)}}},
		copies.RateStep: {{Op: "clone", Attrs: graph.Attrs{"memory_format": "contiguous"},
			In: []tensor.Meta{stepped}}},
		// Matrices are transposed in tiles. The number of rows and columns determines the method: whole tiles in vector
		// registers, 3 interleaved rows, or element by element: a tile of amd64 has more than 2 and 7 rows.
		copies.RateTile:        {permuted([]int{784, 8, 8}, 0, 2, 1), permuted([]int{196, 16, 16}, 0, 2, 1)},
		copies.RateInterleaved: {transposed(tensor.Float32, 1, 3, 64, 64)},
		copies.RateElementwise: {permuted([]int{196, 2, 64}, 0, 2, 1), permuted([]int{64, 7, 256}, 0, 2, 1)},
		// A tile writes to 784 cache lines, which is more than an L1 cache of 48 KiB has. The next tile writes mostly
		// to the same cache lines.
		copies.RateLineRewrite: {permuted([]int{2, 24, 784}, 2, 1, 0), permuted([]int{2, 58, 784}, 2, 1, 0)},
		copies.RateConvert: {{Op: "to", Attrs: graph.Attrs{"dtype": "float32"},
			In: []tensor.Meta{tensor.New(tensor.Int32, 16384)}}},
		// Transposed elements of sizes other than 4 bytes. RateTile is for elements of 4 bytes.
		copies.RateTranspose1:  {transposed(tensor.Uint8, 1, 64, 56, 56)},
		copies.RateTranspose2:  {transposed(tensor.Float16, 1, 64, 56, 56)},
		copies.RateTranspose8:  {transposed(tensor.Float64, 1, 64, 28, 28)},
		copies.RateTranspose16: {transposed(tensor.Complex128, 1, 64, 28, 28)},
	}
	var list []graph.Rate
	for _, rate := range copies.Rates {
		list = append(list, graph.Rate{Name: rate.Name, Unit: rate.Unit, Calls: calls[rate.Name]})
	}
	return list
}

// channelsLastMeta returns the meta of a channels-last image.
func channelsLastMeta(dtype tensor.DType, shape ...int) tensor.Meta {
	meta, err := tensor.NewFormat(dtype, shape, tensor.ChannelsLast)
	if err != nil {
		panic("kernels: images have rank 4: " + err.Error())
	}
	return meta
}

// copyFlops is the cost of an op that copies elements: a tenth of an arithmetic operation for each element.
var copyFlops = graph.ElementFlops{Simple: 0.1}
