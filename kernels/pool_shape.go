package kernels

import (
	"errors"
	"fmt"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/tensor"
)

// poolGeometry holds the attributes of a pooling over height and width.
type poolGeometry struct {
	kernel, stride, padding, dilation [2]int
	ceil                              bool
}

// pair takes one number for both dimensions, or two; else it gives the refusal.
func pair(v []int, refusal string) ([2]int, error) {
	switch len(v) {
	case 1:
		return [2]int{v[0], v[0]}, nil
	case 2:
		return [2]int{v[0], v[1]}, nil
	}
	return [2]int{}, errors.New(refusal)
}

// size is the size of the output in one dimension (pooling_output_shape).
func (g *poolGeometry) size(i, in int) (int, error) {
	k, s, pad, dil := g.kernel[i], g.stride[i], g.padding[i], g.dilation[i]
	switch {
	case s == 0:
		return 0, errors.New("stride should not be zero")
	case pad < 0:
		return 0, fmt.Errorf("pad must be non-negative, but got pad: %d", pad)
	case pad > k/2:
		return 0, fmt.Errorf("pad should be at most half of kernel size, but got pad=%d and kernel_size=%d", pad, k)
	}
	n := in + 2*pad - dil*(k-1) - 1
	if g.ceil {
		n += s - 1
	}
	out := floorDiv(n, s) + 1
	if g.ceil && (out-1)*s >= in+pad {
		// The last window must begin inside the operand or its left border.
		out--
	}
	return out, nil
}

func floorDiv(a, b int) int {
	q := a / b
	if a%b != 0 && (a < 0) != (b < 0) {
		q--
	}
	return q
}

// shape checks the operand and gives the shape of the output (pool2d_shape_check).
func (g *poolGeometry) shape(m tensor.Meta) ([]int, error) {
	lead := m.Rank() - 2
	in := [2]int{m.Shape[lead], m.Shape[lead+1]}
	var out [2]int
	for i := range out {
		n, err := g.size(i, in[i])
		if err != nil {
			return nil, err
		}
		out[i] = n
	}
	switch {
	case g.kernel[0] <= 0 || g.kernel[1] <= 0:
		return nil, fmt.Errorf("kernel size should be greater than zero, but got kH: %d kW: %d", g.kernel[0], g.kernel[1])
	case g.stride[0] <= 0 || g.stride[1] <= 0:
		return nil, fmt.Errorf("stride should be greater than zero, but got dH: %d dW: %d", g.stride[0], g.stride[1])
	case g.dilation[0] <= 0 || g.dilation[1] <= 0:
		return nil, fmt.Errorf("dilation should be greater than zero, but got dilationH: %d dilationW: %d", g.dilation[0], g.dilation[1])
	}
	for d, s := range m.Shape {
		if s == 0 && !(d == 0 && m.Rank() == 4) || m.Rank() > 4 {
			return nil, fmt.Errorf("Expected 3D or 4D (batch mode) tensor with optional 0 dim batch size for input, but got:%s", tensor.ListString(m.Shape))
		}
	}
	if out[0] < 1 || out[1] < 1 {
		planes := m.Shape[lead-1]
		return nil, fmt.Errorf("Given input size: (%dx%dx%d). Calculated output size: (%dx%dx%d). Output size is too small", planes, in[0], in[1], planes, out[0], out[1])
	}
	return append(append([]int{}, m.Shape[:lead]...), out[0], out[1]), nil
}

// windows lists the windows of the output's rows and columns, cut to the operand.
func (g *poolGeometry) windows(in, out tensor.Meta) (rows, cols []window) {
	lead := in.Rank() - 2
	side := func(i int) []window {
		size := in.Shape[lead+i]
		w := make([]window, out.Shape[lead+i])
		for o := range w {
			start := o*g.stride[i] - g.padding[i]
			end := start + (g.kernel[i]-1)*g.dilation[i] + 1
			w[o] = window{start: start, end: min(end, size), step: g.dilation[i], size: min(end, size+g.padding[i]) - start}
			for w[o].start < 0 {
				w[o].start += g.dilation[i]
			}
		}
		return w
	}
	return side(0), side(1)
}

// poolNotServed refuses a dtype by the name of the kernel that the layout chooses.
func poolNotServed(name string, m tensor.Meta) error {
	if m.SuggestMemoryFormat(false) == tensor.ChannelsLast {
		name += "_channels_last"
	}
	return notServed(name, m.DType)
}

// poolResults lays results out in the format that the operand suggests; d is the first
// one's dtype.
func poolResults(m tensor.Meta, shape []int, d tensor.DType, indices bool) ([]graph.Result, error) {
	out, err := tensor.NewFormat(d, shape, m.SuggestMemoryFormat(false))
	res := graph.New1(out.Type())
	if indices {
		res = append(res, graph.Result{Type: out.WithDType(tensor.Int64).Type(), Alias: graph.Fresh})
	}
	return res, err
}
