package conv

import (
	"slices"

	"github.com/graphrun/graphrun/internal/jit/tile"
)

// This file describes the code of the tiles of a direct convolution (directConv), one function for each kind of tiling.
// A tile is the set of results that the registers hold at once: its rows are output pixels, and its columns are the
// channels of a block. A panel is the packed weight of a block. A tap is an element of the window, and a term is the
// product of one tap and one input channel. The input is channels-last or, if shape.byPlanes is set, row-major (NCHW).
//
// In a tile.Spec, distances and offsets are in bytes:
//   - In and Out are the offsets of the tile's rows in the input and in the result. Vec stands for the panel.
//   - Runs are sequences of terms at constant distances, InStep in the input and VecStep in the panel.
//   - Loops are around the runs. The number of iterations, Trips, is an argument of the call if it is tile.Dynamic.
//   - Tiles has the distances between the tiles of a call.
//
// The row and the column of a tap in the window are kh and kw; oh and ow are the row and the column of a pixel in the
// result. The axes conv.h and conv.w have the numbers of rows and columns of the input (Size), of the result (Results)
// and of the window (Taps). Begin(oh) is the input row of the first tap, and Position(oh, kh) is the input row of tap
// kh. Contains reports whether an input row is inside the image.

// pointwiseSpec returns the spec of a tile of consecutive pixels of a pointwise convolution.
func (t *directConv) pointwiseSpec(rows int) *tile.Spec {
	spec := t.newSpec(rows)
	for i := range rows {
		spec.In, spec.Out = append(spec.In, i*t.inPixelBytes), append(spec.Out, i*t.outPixelBytes())
	}
	spec.Tiles = tile.Loop{InStep: rows * t.inPixelBytes, OutStep: rows * t.outPixelBytes()}
	spec.Runs = []tile.Run{{Terms: t.conv.inPerGroup, InStep: t.inChannelBytes(), VecStep: t.termBytes,
		Block: t.sums.termsPerBlock}}
	return spec
}

// smallImageSpec returns the spec of a tile of n consecutive pixels, from pixel `first` on. The pixels may be in
// several rows of the result, so all taps of the window are unrolled.
func (t *directConv) smallImageSpec(first, n int) *tile.Spec {
	conv, spec := t.conv, t.newSpec(n)
	for i := range n {
		oh, ow := (first+i)/conv.w.Results, (first+i)%conv.w.Results
		spec.In = append(spec.In, (conv.h.Begin(oh)*conv.w.Size+conv.w.Begin(ow))*t.inPixelBytes)
		spec.Out = append(spec.Out, (t.outOffset(first+i)-t.outOffset(first))*t.outElemBytes)
	}
	for kh := range conv.h.Taps {
		in, vec := kh*conv.h.Dilation*conv.w.Size*t.inPixelBytes, kh*conv.w.Taps*t.contiguousTerms()*t.termBytes
		t.addWindowRow(spec, in, vec, func(kw, i int) bool {
			oh, ow := (first+i)/conv.w.Results, (first+i)%conv.w.Results
			return conv.h.Contains(conv.h.Position(oh, kh)) && conv.w.Contains(conv.w.Position(ow, kw))
		})
	}
	spec.Loops = t.withChannelLoop()
	return spec
}

// rowSpec returns the spec of a tile that has n pixels of an output row, from column ow on.
func (t *directConv) rowSpec(ow, n int) *tile.Spec {
	conv, spec := t.conv, t.newSpec(n)
	for i := range n {
		spec.In, spec.Out = append(spec.In, i*conv.w.Stride*t.inPixelBytes), append(spec.Out, i*t.outPixelBytes())
	}
	spec.Tiles = tile.Loop{InStep: n * conv.w.Stride * t.inPixelBytes, OutStep: n * t.outPixelBytes()}
	const in, vec = 0, 0 // the loop over window rows adds the offsets of a row
	t.addWindowRow(spec, in, vec, func(kw, i int) bool { return conv.w.Contains(conv.w.Position(ow+i, kw)) })
	windowRows := t.windowRowLoop()
	spec.Loops = t.withChannelLoop(windowRows)
	if t.shape.loopsOverDepth {
		planeBytes := conv.d.Dilation * conv.h.Size * conv.w.Size * t.inPixelBytes
		windowPlanes := tile.Loop{InStep: planeBytes, VecStep: conv.h.Taps * windowRows.VecStep, Trips: tile.Dynamic}
		spec.Loops = slices.Insert(spec.Loops, len(spec.Loops)-1, windowPlanes) // around windowRows, the innermost loop
	}
	return spec
}

// rowPairSpec returns the spec of a tile that has n pixels in each of one or two rows of the result. Images have been
// padded, so all taps are inside the image.
func (t *directConv) rowPairSpec(rows, n int) *tile.Spec {
	conv, spec := t.conv, t.newSpec(rows*n)
	for i := range rows * n {
		row, col := i/n, i%n
		spec.In = append(spec.In, (row*conv.h.Stride*conv.w.Size+col*conv.w.Stride)*t.inPixelBytes)
		spec.Out = append(spec.Out, (row*conv.w.Results+col)*t.outPixelBytes())
	}
	spec.Tiles = tile.Loop{InStep: rows * conv.h.Stride * conv.w.Size * t.inPixelBytes,
		OutStep: rows * conv.w.Results * t.outPixelBytes()}
	const in, vec = 0, 0 // the loop over window rows adds the offsets of a row
	t.addWindowRow(spec, in, vec, func(_, _ int) bool { return true })
	spec.Loops = []tile.Loop{t.windowRowLoop()}
	return spec
}

// newSpec returns the spec of a tile with the given number of rows. The caller adds the offsets of the rows and the
// runs.
func (t *directConv) newSpec(rows int) *tile.Spec {
	spec := &tile.Spec{ElemBytes: t.elemBytes, Rows: rows}
	if !t.shape.usesMatrixUnit { // the loads of the matrix unit have many cache lines; prefetching does not speed them up
		spec.PrefetchDistance = prefetchDistanceBytes
	}
	return spec
}

// windowRowLoop returns the loop over the rows of the window. Their number is an argument of the call.
func (t *directConv) windowRowLoop() tile.Loop {
	conv := t.conv
	return tile.Loop{InStep: conv.h.Dilation * conv.w.Size * t.inPixelBytes,
		VecStep: conv.w.Taps * t.contiguousTerms() * t.termBytes, Trips: tile.Dynamic}
}

// withChannelLoop returns the loops of a spec. If the input is by planes, the inner loops are in a loop over channels.
func (t *directConv) withChannelLoop(inner ...tile.Loop) []tile.Loop {
	if !t.shape.byPlanes {
		return inner
	}
	channels := tile.Loop{InStep: t.inChannelBytes(), VecStep: t.conv.taps() * t.termBytes, Trips: t.conv.inPerGroup,
		Block: t.sums.channelsPerBlock}
	return append([]tile.Loop{channels}, inner...)
}

// addWindowRow adds the runs of a row of the window to a spec. in and vec are the byte offsets of the row's first term
// in the input and in the panel. isInside reports whether tap kw is inside the image for a row of the tile. Adjacent
// taps form one run if they are inside the image for the same rows of the tile. A run has no taps that are outside for
// all rows.
//
// Sums are divided into blocks of terms (t.sums). If termsPerBlock is positive, a block has at most that many terms,
// all of one tap. Otherwise a block has all terms of several taps (endsAfter reports after which taps a block ends), or
// it has several channels (see withChannelLoop). In a run with Block > 0, a block ends after each Block terms and at
// the end of the run. A run with Block 0 ends no block: the next run continues it.
func (t *directConv) addWindowRow(spec *tile.Spec, in, vec int, isInside func(kw, row int) bool) {
	conv := t.conv
	firstRun := len(spec.Runs) // of the row
	step := t.inChannelBytes()
	if t.shape.byPlanes {
		step = conv.w.Dilation * t.inPixelBytes
	}
	for kw := range conv.w.Taps {
		rowBits := uint32(0) // bit set of the rows of the tile for which the tap is inside the image
		for i := range spec.Rows {
			if isInside(kw, i) {
				rowBits |= 1 << i
			}
		}
		// Append the terms of the tap, or merge them into the last run.
		run := tile.Run{In: in + kw*conv.w.Dilation*t.inPixelBytes, Vec: vec + kw*t.contiguousTerms()*t.termBytes,
			InStep: step, VecStep: t.termBytes, Terms: t.contiguousTerms(), Rows: rowBits, Block: t.sums.termsPerBlock}
		if last := len(spec.Runs) - 1; last >= firstRun && canMergeRuns(&spec.Runs[last], &run) {
			spec.Runs[last].Terms += run.Terms
		} else if rowBits != 0 {
			spec.Runs = append(spec.Runs, run)
		}
		if !t.sums.endsAfter(kw, conv.w.Taps) { // the block continues with the next tap
			continue
		}
		if last := len(spec.Runs) - 1; last >= firstRun && spec.Runs[last].Block == 0 {
			spec.Runs[last].Block = spec.Runs[last].Terms // a block ends at the end of the run
		}
	}
}

// canMergeRuns reports whether run b can be merged into run a. Run b must have the same rows as a, and begin at the
// term after the last term of a. If a block ends in one of the runs, both must have blocks of the same length, and a
// block must end at the end of a.
func canMergeRuns(a, b *tile.Run) bool {
	return a.Rows == b.Rows && a.In+a.Terms*a.InStep == b.In && a.Vec+a.Terms*a.VecStep == b.Vec &&
		a.Block == b.Block && (a.Block == 0 || a.Terms%a.Block == 0)
}

// contiguousTerms returns the number of terms of one tap that are adjacent in a panel.
func (t *directConv) contiguousTerms() int {
	if t.shape.byPlanes {
		return 1
	}
	return t.conv.inPerGroup
}
