package tile

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/internal/jit"
	"github.com/graphrun/graphrun/internal/jit/target"
	"github.com/graphrun/graphrun/internal/machine"
)

// This file checks specs ([Spec]), and reports which code a processor supports. An accumulator is a vector of sums for
// one row of the tile. The k-loop is the loop over the terms of the sums: each term multiplies a vector of the vector
// operand by an element of the broadcast operand, for each row.

// check returns an error if a spec is invalid. The comments on the fields of [Spec] give the rules. The other checks
// assume that checkShape passed. checkLevels is in levels.go, checkDistances in distances.go, and checkMatrixUnit in
// unit_split.go.
func (s *Spec) check(cpu machine.Features) error {
	if err := s.checkShape(cpu); err != nil {
		return err
	}
	if err := cmp.Or(s.checkIntegers(cpu), s.checkLevels(), s.checkPrefetch(), s.checkLoops(), s.checkEpilogue(),
		s.checkRuns()); err != nil {
		return err
	}
	if err := s.checkDistances(); err != nil || !s.MatrixUnit {
		return err
	}
	return s.checkMatrixUnit()
}

// checkShape checks the size of the tile, and the fields that need no other checks.
func (s *Spec) checkShape(cpu machine.Features) error {
	registerCount, vectorBytes := target.VectorRegisters(cpu)
	switch {
	case !Supports(cpu):
		return fmt.Errorf("tile: there is no code for %v: want AVX2 or NEON", cpu)
	case s.Lanes == Dynamic && !DynamicLanes(cpu):
		return fmt.Errorf("tile: Lanes is Dynamic: it must be constant on %v", cpu)
	case s.ElemBytes != 4 && s.ElemBytes != 8:
		return fmt.Errorf("tile: ElemBytes is %d: want 4 or 8", s.ElemBytes)
	case s.MatrixUnit && !cpu.Has(machine.Vector512):
		return fmt.Errorf("tile: MatrixUnit requires AVX-512, and the processor has %v", cpu)
	case s.Rows < 1 || s.Vectors < 1:
		return fmt.Errorf("tile: Rows is %d and Vectors is %d: want at least 1", s.Rows, s.Vectors)
	case !s.MatrixUnit && s.minRegisters(cpu) > registerCount:
		return fmt.Errorf("tile: %d rows of %d vectors do not fit into %d registers", s.Rows, s.Vectors, registerCount)
	case s.Lanes != Dynamic && (s.Lanes < 0 || s.Lanes > vectorBytes/s.ElemBytes):
		return fmt.Errorf("tile: Lanes is %d: want 0 to %d", s.Lanes, vectorBytes/s.ElemBytes)
	case s.In != nil && len(s.In) != s.Rows || s.Out != nil && len(s.Out) != s.Rows:
		return fmt.Errorf("tile: In has %d offsets and Out has %d: want %d (one for each row) or nil", len(s.In),
			len(s.Out), s.Rows)
	case s.In == nil && s.Rows > MaxDynamicRows:
		return fmt.Errorf("tile: Rows is %d: want at most %d if In is nil", s.Rows, MaxDynamicRows)
	case s.Half > target.BFloat16, s.Half != target.NotHalf && (s.ElemBytes != 4 || s.hasIntSums() || s.Masked ||
		s.hasLevels()):
		return fmt.Errorf("tile: Half is %d: want 0 to %d; 16-bit floats require ElemBytes 4 and float sums, and exclude "+
			"Masked and VecQuantization", s.Half, target.BFloat16)
	case s.InitialSum > FromResult:
		return fmt.Errorf("tile: InitialSum is %d: want 0 to %d", s.InitialSum, FromResult)
	case s.Unroll < 0 || s.PrefetchedLines < 0:
		return fmt.Errorf("tile: Unroll is %d and PrefetchedLines is %d: neither may be negative", s.Unroll,
			s.PrefetchedLines)
	case len(s.Loops) > MaxLoops:
		return fmt.Errorf("tile: there are %d Loops: want at most %d", len(s.Loops), MaxLoops)
	case s.hasBlocks() && (s.In == nil || s.hasIntSums()):
		return fmt.Errorf("tile: blocks of terms require In and elements that are floats")
	}
	return nil
}

// minRegisters returns the minimum number of vector registers for a tile. It counts the accumulators, the vectors of a
// term and the zero points. It adds a broadcast element if multiplications do not read it from memory, a temporary
// register for some specs with Int16, and the mask if it is in a vector register. Quantization reuses the registers of
// the k-loop.
func (s *Spec) minRegisters(cpu machine.Features) int {
	count := s.sumCount() + s.vectorsPerTerm() + s.zeroPointVectors()
	if s.Quantized != NotQuantized {
		count = max(count, s.sumCount()+quantizedRegs-1) // one register is the broadcast element's, added below
	}
	if cpu.Has(machine.Vector512) && !s.hasIntSums() && !s.hasLevels() { // floats, without dequantization
		return count // multiplications read the element from memory, and the mask is in a mask register
	}
	count++ // the broadcast element
	if s.Int16 && s.Vectors > 1 {
		count++ // the product is computed in a temporary register
	}
	if s.needsVectorMask(cpu) {
		count++
	}
	return count
}

// checkIntegers checks the fields of integer products.
func (s *Spec) checkIntegers(cpu machine.Features) error {
	allRows := uint32(1<<s.Rows - 1)                                                // a bit for each row
	omitsRows := func(run Run) bool { return run.Rows != 0 && run.Rows != allRows } // 0 also stands for all rows
	canUseMatrices := s.Int8 && cpu.Has(machine.MatrixBytes) && !s.Masked && s.PackedStep == 0 &&
		!slices.ContainsFunc(s.Runs, omitsRows)
	canQuantize := s.hasIntSums() && s.Out != nil && s.InitialSum != FromResult && len(s.Epilogue) == 0
	switch {
	case !SupportsIntegers(cpu) && s.hasIntSums():
		return fmt.Errorf("tile: there is no code for products of bytes or 16-bit words on %v", cpu)
	case s.Int16 && cpu.Has(machine.NEON):
		return fmt.Errorf("tile: there is no code for products of 16-bit words on %v", cpu)
	case s.SignedIn && !s.Int8, s.Int8 && ReadsSigned(cpu, s.SignedIn) != s.SignedIn:
		return fmt.Errorf("tile: SignedIn is %v: want false without Int8 and, with Int8, the value of ReadsSigned for %v",
			s.SignedIn, cpu)
	case s.Int8Matrix && !canUseMatrices:
		return fmt.Errorf("tile: Int8Matrix requires the feature i8mm, Int8, whole vectors, all rows in every run, and no "+
			"packing; features: %v", cpu)
	case s.Int8 && s.ElemBytes != 4:
		return fmt.Errorf("tile: Int8 requires elements of 4 bytes: ElemBytes is %d", s.ElemBytes)
	case s.Int16 && (s.ElemBytes != 4 || s.Int8):
		return fmt.Errorf("tile: Int16 requires elements of 4 bytes (pairs of words) and excludes Int8: ElemBytes is %d, "+
			"Int8 %v", s.ElemBytes, s.Int8)
	case s.Quantized > Signed, s.Quantized != NotQuantized && !canQuantize:
		return fmt.Errorf("tile: Quantized is %d: want 0 to %d; a quantized result requires Int8 or Int16, Out, no "+
			"Epilogue, and an InitialSum other than FromResult", s.Quantized, Signed)
	}
	return nil
}

// checkPrefetch checks the fields of prefetches and of packing.
func (s *Spec) checkPrefetch() error {
	if s.PackedStep != 0 && (len(s.Runs) != 1 || len(s.Loops) > 0) {
		return fmt.Errorf("tile: PackedStep requires one run and no loops: there are %d runs and %d loops", len(s.Runs),
			len(s.Loops))
	}
	isDynamicLoop := len(s.Runs) == 1 && s.Runs[0].Terms == Dynamic && len(s.Loops) == 0 && s.Unroll == 0
	limit := maxPrefetches // on len(s.Prefetch)
	if s.PrefetchedLines > 0 {
		limit-- // the address of Prefetched occupies one of the registers
	}
	if len(s.Prefetch) > limit || len(s.Prefetch) > 0 && !isDynamicLoop {
		return fmt.Errorf("tile: Prefetch lists %d operands: it may list at most %d, and requires a single run with Dynamic "+
			"Terms, no loops, and no Unroll", len(s.Prefetch), limit)
	}
	for i, prefetch := range s.Prefetch {
		if prefetch.Lines < 1 || prefetch.Every < DefaultUnroll || prefetch.Every&(prefetch.Every-1) != 0 {
			return fmt.Errorf("tile: Prefetch[%d] is %+v: Lines must be positive, and Every a power of two that is at least %d",
				i, prefetch, DefaultUnroll)
		}
	}
	return nil
}

// checkLoops checks the distances and the numbers of iterations of the loops.
func (s *Spec) checkLoops() error {
	for index, loop := range s.Loops {
		hasDynamicStep := loop.InStep == Dynamic || loop.VecStep == Dynamic
		hasTrips := loop.Trips >= 1 || loop.Trips == Dynamic
		if hasDynamicStep || loop.OutStep != 0 || !hasTrips || loop.Block < 0 {
			return fmt.Errorf("tile: loop %d is %+v: want constant InStep and VecStep, OutStep 0, Trips at least 1 or "+
				"Dynamic, and Block at least 0", index, loop)
		}
	}
	return nil
}

// checkEpilogue checks the operations and operands of the epilogue.
func (s *Spec) checkEpilogue() error {
	const maxOperand = jit.MaxOperands - FirstEpilogueOperand - 1
	for index, step := range s.Epilogue {
		hasOp := step.Op <= Scale && !(step.Op == AddResult && s.hasIntSums())
		if !hasOp || step.Operand < 0 || step.Operand > maxOperand {
			return fmt.Errorf("tile: epilogue step %d is %+v: want Op 0 to %d (not AddResult with Int8 or Int16) and Operand 0 "+
				"to %d", index, step, Scale, maxOperand)
		}
	}
	return nil
}

// checkRuns checks the numbers of terms, rows and blocks of the runs.
func (s *Spec) checkRuns() error {
	for i, run := range s.Runs {
		isDynamic := run.Terms == Dynamic || run.InStep == Dynamic || run.VecStep == Dynamic
		hasTerms := run.Terms >= 1 || run.Terms == Dynamic
		hasConstantStart := run.In != Dynamic && run.Vec != Dynamic
		fitsRows := run.Rows>>s.Rows == 0
		hasBlock := run.Block == 0 || run.Block > 0 && run.Terms != Dynamic
		switch {
		case isDynamic && len(s.Runs) > 1:
			return fmt.Errorf("tile: run %d has Dynamic fields, so it must be the only run: there are %d", i, len(s.Runs))
		case !hasTerms, !hasConstantStart, !fitsRows, !hasBlock:
			return fmt.Errorf("tile: run %d is %+v: want Terms at least 1 or (with Block 0) Dynamic, constant In and Vec, "+
				"Block at least 0, and Rows within %d rows", i, run, s.Rows)
		}
	}
	return nil
}

// sumCount returns the number of registers for accumulators. With Int8Matrix, a register has sums of two rows, so an
// odd number of rows is rounded up.
func (s *Spec) sumCount() int {
	if s.Int8Matrix {
		return (s.Rows + s.Rows%2) * s.Vectors
	}
	return s.Rows * s.Vectors
}

// vectorsPerTerm returns the number of vectors that the vector operand has for one term. With Int8Matrix, an element
// has eight bytes instead of four, so the vectors of a term are twice as many as without Int8Matrix.
func (s *Spec) vectorsPerTerm() int {
	if s.Int8Matrix {
		return 2 * s.Vectors
	}
	return s.Vectors
}

// hasBlocks reports whether the terms of a sum are divided into blocks, which are summed separately.
func (s *Spec) hasBlocks() bool {
	return slices.ContainsFunc(s.Loops, func(loop Loop) bool { return loop.Block > 0 }) ||
		slices.ContainsFunc(s.Runs, func(run Run) bool { return run.Block > 0 })
}

// hasIntSums reports whether the accumulators are int32.
func (s *Spec) hasIntSums() bool { return s.Int8 || s.Int16 }

// mayBePartial reports whether the last vector may be partial.
func (s *Spec) mayBePartial(cpu machine.Features) bool {
	_, vectorBytes := target.VectorRegisters(cpu)
	return s.Lanes != 0 && s.Lanes != vectorBytes/s.ElemBytes
}

// needsVectorMask reports whether the k-loop needs a mask in a vector register.
func (s *Spec) needsVectorMask(cpu machine.Features) bool {
	return target.UsesVectorMasks(cpu) && s.Masked && s.mayBePartial(cpu)
}

// Supports reports whether there is code for floats.
func Supports(cpu machine.Features) bool { return cpu.Has(machine.AVX2) || cpu.Has(machine.NEON) }

// SupportsIntegers reports whether there is code for integer products. The code is for Spec.Int8 if the processor has a
// dot product of bytes; otherwise it is for Spec.Int16, on amd64 only. arm64 has no code for Int16, because such code
// would not be faster than the code for float32.
func SupportsIntegers(cpu machine.Features) bool { return cpu.Has(machine.AVX2) || cpu.HasByteDot() }

// ReadsSigned reports whether tiles with Spec.Int8 read the broadcast operand as signed bytes. signed is true if the
// dtype of the operand is signed. If the result differs from signed, the caller must flip the sign bit of each byte of
// the operand, which adds or subtracts 128. The vector operand always has signed bytes. By instruction, the bytes of
// the broadcast operand are unsigned (VPDPBUSD of amd64), signed (SDOT of arm64) or unsigned (SUDOT of I8MM).
func ReadsSigned(cpu machine.Features, signed bool) bool {
	return cpu.Has(machine.NEON) && (signed || !cpu.Has(machine.MatrixBytes))
}

// VectorRegisters returns the number of vector registers of a tile, and their size in bytes.
func VectorRegisters(cpu machine.Features) (count, bytes int) { return target.VectorRegisters(cpu) }

// ElementsPerLoad returns the maximum number of elements that one load reads from the broadcast operand (the rows of
// the tile). If there is a free register for each row, a load reads consecutive terms of one row. Otherwise the load
// reads one term of several rows that are adjacent in memory.
func ElementsPerLoad(cpu machine.Features, size int) int { return target.MaxLoadedElements(cpu, size) }

// DynamicLanes reports whether the number of lanes of the last vector may be [Dynamic].
func DynamicLanes(cpu machine.Features) bool { return cpu.Has(machine.AVX2) }
