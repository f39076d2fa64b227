package calibrate

import (
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/pricing"
	"github.com/graphrun/graphrun/tensor"
)

// A probe is a measured call of an op. A memory curve is the price of a byte as a function of the number of bytes that
// a call accesses, its footprint. There is a curve for each kind of access.

// memoryProbes returns the probes of memory curves, for sizes of up to `maxBytes` bytes.
func memoryProbes(maxBytes float64) []*probe {
	var list []*probe
	for access, call := range accessCalls {
		limit := maxBytes
		if access := pricing.Access(access); access == pricing.DenseConstants || access == pricing.Panels {
			limit = min(limit, maxConstantsBytes)
		}
		for _, bytes := range footprints {
			if bytes > limit && bytes > footprints[0] { // a curve has at least the first point
				continue
			}
			p := &probe{access: pricing.Access(access), footprintBytes: bytes, unit: "a byte", call: call(int(bytes))}
			if p.access == pricing.Dense {
				p.chainedCalls = denseChainedCalls
			}
			list = append(list, p)
		}
	}
	return list
}

// footprints has the sizes in bytes at which memory curves are measured: within each cache, near its capacity, and
// above its capacity. 3 << 19 is 1.5 MiB.
var footprints = []float64{4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 3 << 19, 2 << 20, 3 << 20, 4 << 20, 6 << 20,
	8 << 20, 16 << 20, 32 << 20, 64 << 20, 128 << 20}

// maxConstantsBytes is the maximum footprint of the curves of constants, whose probes take seconds: see evictCaches.
const maxConstantsBytes = 64 << 20

// denseChainedCalls is the number of calls that follow the first call of a probe of dense accesses. Each reads the
// result of the call before it, as the steps of a network do. In 7 of 8 calls, the part of the operand that fits into
// the caches is thus cached.
const denseChainedCalls = 7

// accessCalls has a function for each kind of access. Each function returns a call that accesses about the given
// number of bytes in this way. It computes the number of elements from the number of bytes: an element takes 4 bytes
// in each float32 operand and result.
var accessCalls = [...]func(bytes int) graph.RateCall{
	// Sequential access to an operand and a result.
	pricing.Dense: func(bytes int) graph.RateCall {
		elements := bytes / 8 // in the operand, and in the result
		return graph.RateCall{Op: "relu", In: []tensor.Meta{tensor.New(tensor.Float32, elements)}}
	},
	// Sequential access to constants, by a product with a single row.
	pricing.DenseConstants: func(bytes int) graph.RateCall { return linearCall("thin", 1, min(bytes, maxLayerBytes)) },
	// Access to packed constants of products, panel by panel: a panel is a block of columns. The implementation "tiled"
	// is named after its register tiles; graph.Tiled is another kind of access.
	pricing.Panels: func(bytes int) graph.RateCall {
		return linearCall("tiled", panelRows, min(bytes, maxPanelsBytes))
	},
	// Copies of sequential runs.
	pricing.Copied: func(bytes int) graph.RateCall {
		elements := bytes / 16 // in each of the two operands; the result has twice as many
		return graph.RateCall{Op: "cat", In: []tensor.Meta{tensor.New(tensor.Float32, elements),
			tensor.New(tensor.Float32, elements)}}
	},
	// Access that transposes tile by tile.
	pricing.Tiled: tiledCall,
	// Access to a part of every cache line.
	pricing.Strided: func(bytes int) graph.RateCall {
		elements := bytes / 8 // elements of the operand are 16 bytes apart; the gaps are not counted
		operand := tensor.Meta{DType: tensor.Float32, Shape: []int{elements}, Strides: []int{4}}
		return graph.RateCall{Op: "relu", In: []tensor.Meta{operand}}
	},
	// Random access.
	pricing.Gathered: func(bytes int) graph.RateCall {
		const columns = 64
		// The call accesses a third more than the given number of bytes: an element takes 4 bytes, its result 4 and its index
		// 8.
		rows := max(16, bytes/(12*columns))
		return graph.RateCall{Op: "gather", Attrs: graph.Attrs{"dim": 0}, Impl: "elements",
			In: []tensor.Meta{tensor.New(tensor.Float32, rows, columns), tensor.New(tensor.Int64, rows, columns)}}
	},
}

// tiledCall returns a call that copies an image from channels-last to row-major, and another image of the same size
// from row-major to channels-last. Each of the two copies accesses about the given number of bytes.
func tiledCall(bytes int) graph.RateCall {
	const elementBytes = 4 + 4         // an element of the operand and one of the result
	const typicalChannels = 128        // number of channels of a transposed image
	const minSide, maxSide = 7, 7 << 4 // images in networks have sides of 7, 14, 28, 56 and 112
	imageSide := minSide
	for imageSide < maxSide && imageSide*imageSide*typicalChannels*elementBytes < bytes {
		imageSide *= 2
	}
	channels := max(8, bytes/elementBytes/(imageSide*imageSide))
	return graph.RateCall{Op: "clone", In: []tensor.Meta{channelsLast(1, channels, imageSide, imageSide),
		tensor.New(tensor.Float32, 1, channels, imageSide, imageSide)},
		Make: func(g *graph.Graph, in []any) []*graph.Value {
			return append(g.Apply("clone", graph.Attrs{"memory_format": "contiguous"}, in[0]),
				g.Apply("clone", graph.Attrs{"memory_format": "channels_last"}, in[1])...)
		}}
}

// channelsLast returns the meta of a channels-last image.
func channelsLast(shape ...int) tensor.Meta {
	meta, err := tensor.NewFormat(tensor.Float32, shape, tensor.ChannelsLast)
	if err != nil {
		panic("calibrate: images have rank 4: " + err.Error())
	}
	return meta
}

// linearCall returns a call of an implementation of linear. It multiplies a matrix of the given number of rows by
// constants of about the given number of bytes. The matrix of the constants has 1024 columns, as in networks. A small
// matrix has fewer columns, so that it has at least 16 rows.
func linearCall(impl string, rows, bytes int) graph.RateCall {
	const minConstantRows = 16
	columns := min(1024, bytes/(4*minConstantRows))
	return graph.RateCall{Op: "linear", Constant: []int{1}, Impl: impl,
		In: []tensor.Meta{tensor.New(tensor.Float32, rows, columns), tensor.New(tensor.Float32, bytes/4/columns, columns)}}
}

// maxLayerBytes is the maximum size of the constants of a probe without panels: the typical size of the constants of
// one network step. A probe of a larger footprint has constants of this size too. Between two measured calls, such a
// probe accesses other memory of the size of the footprint ([probe.bytesBetweenCalls]).
const maxLayerBytes = 1 << 20

// maxPanelsBytes is the maximum size of the constants that a probe reads in panels: the size for a large layer.
const maxPanelsBytes = 4 << 20

// panelRows is the number of rows of the matrix products that measure reads of panels (packed constants). The number is
// small, so that the reads determine the time of the product.
const panelRows = 48
