package tensor

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/graphrun/graphrun/internal/contiguity"
	"github.com/graphrun/graphrun/internal/suggest"
)

// MemoryFormat names an order of the dimensions of a dense value. The names are PyTorch's. The strides of an image of
// shape (2,3,4,5), which is batch, channels, height and width, are (60,20,5,1) in Contiguous format and (60,1,15,3) in
// ChannelsLast format. [Meta.IsChannelsLast] reports whether a value is dense in a format.
// [Meta.StridesLikeChannelsLast] tests only the order of the strides, so it also holds for a slice of an image.
type MemoryFormat uint8

// The memory formats. ChannelsLast is NHWC (rank 4), ChannelsLast3d is NDHWC (rank 5). Preserve keeps the strides of an
// operand that is non-overlapping and dense.
const (
	NoFormat MemoryFormat = iota
	Contiguous
	ChannelsLast
	ChannelsLast3d
	Preserve
)

var formatNames = [...]string{"", "contiguous", "channels_last", "channels_last_3d", "preserve"}

// String returns the name used in graph files.
func (f MemoryFormat) String() string {
	if int(f) >= len(formatNames) {
		return fmt.Sprintf("memory_format(%d)", uint8(f))
	}
	return formatNames[f]
}

// Valid reports whether f is one of the constants, NoFormat included.
func (f MemoryFormat) Valid() bool { return int(f) < len(formatNames) }

// ParseMemoryFormat returns the format of a name such as "channels_last". PyTorch's names with the suffix
// "_format" are accepted too.
func ParseMemoryFormat(name string) (MemoryFormat, error) {
	for f, n := range formatNames {
		if n != "" && (n == name || n+"_format" == name) {
			return MemoryFormat(f), nil
		}
	}
	suggestion := formatMeant(name).String()
	if suggestion == "" {
		suggestion = suggest.Nearest(name, slices.Values(formatNames[1:]))
	}
	return NoFormat, fmt.Errorf("unknown memory format %q: want contiguous, channels_last, channels_last_3d or preserve%s",
		name, suggest.DidYouMean(suggestion))
}

// formatMeant returns the format that a name denotes in other libraries or in another spelling. Otherwise it returns
// NoFormat.
func formatMeant(name string) MemoryFormat {
	letters := strings.NewReplacer("_", "", "-", "", " ", "", "torch.", "").Replace(strings.ToLower(name))
	return map[string]MemoryFormat{
		"nhwc": ChannelsLast, "channelslast": ChannelsLast, "nchw": Contiguous, "ncdhw": Contiguous, "rowmajor": Contiguous,
		"contiguousformat": Contiguous, "channelslastformat": ChannelsLast, "channelslast3d": ChannelsLast3d,
		"ndhwc": ChannelsLast3d,
	}[letters]
}

// Strides returns the strides of a dense value of the shape in the format. The errors for a wrong rank are PyTorch's.
//
// For Contiguous, a size 0 counts as 1 (TensorImpl). For channels-last formats it does not, so a size 0 makes strides 0
// (get_channels_last_strides_2d).
func (f MemoryFormat) Strides(shape []int) ([]int, error) {
	order, err := f.order(len(shape))
	switch {
	case err != nil:
		return nil, err
	case f == Contiguous:
		return ContiguousStrides(shape), nil
	}
	return orderedStrides(shape, order), nil
}

// order returns the dimensions of a dense value of the format, fastest first, or nil for Contiguous. It fails where
// Strides fails.
func (f MemoryFormat) order(rank int) ([]int, error) {
	switch f {
	case Contiguous:
		return nil, nil
	case ChannelsLast:
		if rank != 4 {
			return nil, errors.New("required rank 4 tensor to use channels_last format")
		}
		return contiguity.Order2d, nil
	case ChannelsLast3d:
		if rank != 5 {
			return nil, errors.New("required rank 5 tensor to use channels_last_3d format")
		}
		return contiguity.Order3d, nil
	}
	return nil, fmt.Errorf("memory format %q has no strides of its own", f)
}

// orderedStrides returns dense strides for an order of the dimensions, fastest first. A size 0 makes strides 0.
func orderedStrides(shape, order []int) []int {
	strides := make([]int, len(shape))
	denseStride := 1
	for _, d := range order {
		strides[d] = denseStride
		denseStride = saturatingMul(denseStride, shape[d])
	}
	return strides
}

// IsContiguous reports whether the value is row-major. It ignores the strides of dimensions of size 1. A value without
// elements is contiguous (TensorImpl::compute_contiguous).
func (m Meta) IsContiguous() bool {
	m.mustMatchRanks()
	denseStride := 1
	for dim := len(m.Shape) - 1; dim >= 0; dim-- {
		size := m.Shape[dim]
		if size == 1 {
			continue
		}
		if m.Strides[dim] != denseStride && size != 0 { // not row-major, unless another dimension has size 0
			return m.Numel() == 0
		}
		denseStride *= size
	}
	return true
}

// IsChannelsLast reports whether a rank-4 value is dense in NHWC order. It ignores the strides of dimensions of size 1
// (compute_channels_last_contiguous_2d).
func (m Meta) IsChannelsLast() bool {
	return len(m.Shape) == 4 && m.isDenseIn(contiguity.Order2d)
}

// IsChannelsLast3d reports whether a rank-5 value is dense in NDHWC order.
func (m Meta) IsChannelsLast3d() bool {
	return len(m.Shape) == 5 && m.isDenseIn(contiguity.Order3d)
}

// isDenseIn reports whether the value is dense in an order of the dimensions, fastest first. It ignores the strides of
// dimensions of size 1.
func (m Meta) isDenseIn(order []int) bool {
	m.mustMatchRanks()
	denseStride := 1
	for _, d := range order {
		if size := m.Shape[d]; size != 1 {
			if m.Strides[d] != denseStride {
				return false
			}
			denseStride *= size
		}
	}
	return true
}

// Is reports whether the value is contiguous in the format, as PyTorch's is_contiguous(memory_format) does.
// It is true for Preserve and NoFormat, and false for an invalid format.
func (m Meta) Is(format MemoryFormat) bool {
	switch format {
	case Contiguous:
		return m.IsContiguous()
	case ChannelsLast:
		return m.IsChannelsLast()
	case ChannelsLast3d:
		return m.IsChannelsLast3d()
	}
	return format.Valid()
}

// StridesLikeChannelsLast reports whether the strides of a rank-4 value have NHWC order. The value need not be dense.
// Strides that fit both orders count as NCHW (is_channels_last_strides_2d_s4).
func (m Meta) StridesLikeChannelsLast() bool {
	return len(m.Shape) == 4 && m.stridesLikeOrder(contiguity.Order2d)
}

// StridesLikeChannelsLast3d reports whether the strides of a rank-5 value have NDHWC order. The value need not be
// dense. Strides that fit both orders count as NCDHW (is_channels_last_strides_3d_s5).
func (m Meta) StridesLikeChannelsLast3d() bool {
	return len(m.Shape) == 5 && m.stridesLikeOrder(contiguity.Order3d)
}

// stridesLikeOrder reports whether the strides ascend in an order of the dimensions, fastest first, without overlap.
func (m Meta) stridesLikeOrder(order []int) bool {
	m.mustMatchRanks()
	if m.Strides[1] == 0 { // PyTorch takes such a value as NCHW
		return false
	}
	minStride := 0 // the minimum stride of the next dimension: the span of the dimensions before it
	for _, dim := range order {
		if m.Shape[dim] == 0 || m.Strides[dim] < minStride {
			return false
		}
		// PyTorch classifies shape N111 with equal strides as NCHW.
		if dim == 0 && minStride == m.Strides[1] {
			return false
		}
		minStride = m.Strides[dim]
		if m.Shape[dim] > 1 {
			minStride *= m.Shape[dim]
		}
	}
	return true
}

// IsNonOverlappingAndDense reports whether the value is dense in some order of its dimensions. As in PyTorch, every
// contiguous value is dense. A value without elements is contiguous, and is therefore dense with any strides.
func (m Meta) IsNonOverlappingAndDense() bool {
	if m.IsContiguous() || m.IsChannelsLast() || m.IsChannelsLast3d() {
		return true
	}
	if len(m.Shape) == 1 {
		return m.Shape[0] < 2 || m.Strides[0] == 1
	}
	var buf [8]int
	fastestFirst := buf[:0]
	for dim, size := range m.Shape {
		if size != 1 {
			fastestFirst = append(fastestFirst, dim)
		}
	}
	slices.SortFunc(fastestFirst, func(a, b int) int { return m.Strides[a] - m.Strides[b] })
	denseStride := 1
	for _, dim := range fastestFirst {
		if m.Strides[dim] != denseStride {
			return false
		}
		denseStride *= m.Shape[dim]
	}
	return true
}

// SuggestMemoryFormat returns the format that the strides resemble: ChannelsLast, ChannelsLast3d or Contiguous. If
// exactMatch is set, the strides must be the strides of a dense value in the format, even in dimensions of size 0 and 1
// (TensorBase::suggest_memory_format).
func (m Meta) SuggestMemoryFormat(exactMatch bool) MemoryFormat {
	var format MemoryFormat
	switch {
	case m.StridesLikeChannelsLast():
		format = ChannelsLast
	case m.StridesLikeChannelsLast3d():
		format = ChannelsLast3d
	default:
		return Contiguous
	}
	if exactMatch {
		if strides, _ := format.Strides(m.Shape); !slices.Equal(strides, m.Strides) {
			return Contiguous
		}
	}
	return format
}

// Flags returns the names of the predicates that hold, in a fixed order: contiguous,
// channels_last, channels_last_3d, non_overlapping_and_dense.
func (m Meta) Flags() []string {
	flags := make([]string, 0, 4)
	if m.IsContiguous() {
		flags = append(flags, "contiguous")
	}
	if m.IsChannelsLast() {
		flags = append(flags, "channels_last")
	}
	if m.IsChannelsLast3d() {
		flags = append(flags, "channels_last_3d")
	}
	if len(flags) > 0 || m.IsNonOverlappingAndDense() {
		flags = append(flags, "non_overlapping_and_dense")
	}
	return flags
}
