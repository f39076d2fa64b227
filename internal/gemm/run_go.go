package gemm

import "unsafe"

// This file computes a tile of C for one block of K with kernels in Go, from packed panels. A kernel computes a
// register tile: a panel of A times a panel of B. strips.go does the same with machine code.

// computePanelsInGo computes C[i0:i1, j0:j1] for one block of K. a and b are the terms of A and B in this block.
func (t *tileState) computePanelsInGo(a, b *operandView, i0, i1, j0, j1 int) {
	plan := t.Plan
	for blockStart := i0; blockStart < i1; blockStart += plan.rowsPerBlock {
		blockEnd := min(blockStart+plan.rowsPerBlock, i1)
		for j := j0; j < j1; j += plan.b.panelWidth {
			cols := min(plan.b.panelWidth, j1-j)
			bPanel := t.elem(b.base, b.laneOffset(j-j0))
			for i := blockStart; i < blockEnd; i += plan.a.panelWidth {
				t.micro(t.elem(a.base, a.laneOffset(i-i0)), bPanel, i, j, min(plan.a.panelWidth, blockEnd-i), cols)
			}
			if t.isLastBlock {
				t.runEpilogue(blockStart, blockEnd, j, j+cols)
			}
			t.countMACs(stripCost + (blockEnd-blockStart)*cols*t.kc)
		}
	}
}

// micro computes the register tile at (i, j) of C from packed panels, with a kernel in Go. If the kernel can address
// this part of C, it stores the sums there. Otherwise it stores them in the worker's temporary tile, and merge updates
// C. As in microFunc, the kernel takes distances in bytes.
func (t *tileState) micro(aPanel, bPanel unsafe.Pointer, i, j, rows, cols int) {
	plan, spec := t.Plan, &t.spec
	elemBytes, kernel := plan.kernels.elemBytes, plan.kernels.micro
	aStep := plan.a.panelWidth * elemBytes
	dst := t.elem(t.ptrC, i*spec.CRowStride+j*spec.CColStride)
	// A kernel can add either the old C or the bias.
	hasTwoInits := t.isFirstBlock && spec.Accumulate && spec.Bias == BiasCols
	if spec.CColStride != 1 || hasTwoInits {
		sums := t.temporary()
		kernel(t.kc, aPanel, aStep, bPanel, sums, plan.kernels.nr*elemBytes,
			unsafe.Pointer(&zeroRow), 0 /* ldinit */, nil /* rowBias */, rows, cols)
		t.merge(sums, i, j, rows, cols)
		return
	}
	cStride := spec.CRowStride * elemBytes
	init, initStride := dst, cStride
	var rowBias unsafe.Pointer
	if t.isFirstBlock {
		if !spec.Accumulate {
			init, initStride = unsafe.Pointer(&zeroRow), 0
		}
		switch spec.Bias {
		case BiasCols:
			init = t.elem(t.biasCols(), j-t.j0)
		case BiasRows:
			rowBias = t.elem(t.biasRows(), i-t.i0)
		}
	}
	kernel(t.kc, aPanel, aStep, bPanel, dst, cStride, init, initStride, rowBias, rows, cols)
}

// merge adds the temporary register tile to C at (i, j), and in the first block also the bias.
func (t *tileState) merge(sums unsafe.Pointer, i, j, rows, cols int) {
	spec := &t.spec
	var bias matrix
	if t.isFirstBlock {
		switch spec.Bias {
		case BiasRows:
			bias = matrix{t.elem(t.biasRows(), i-t.i0), 1, 0}
		case BiasCols:
			bias = matrix{t.elem(t.biasCols(), j-t.j0), 0, 1}
		}
	}
	accumulate := !t.isFirstBlock || spec.Accumulate
	t.kernels.store(rows, cols, matrix{sums, t.kernels.nr, 1}, t.result(i, j), bias, accumulate)
}
