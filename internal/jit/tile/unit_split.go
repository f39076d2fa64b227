package tile

import (
	"fmt"
	"slices"
)

// Limits of the matrix unit (AMX), which multiplies matrices in 8 tile registers of 16 rows of 64 bytes. It multiplies
// groups of four bytes: the product of two groups is the sum of four products. In this package, a group is one element
// of an operand (ElemBytes 4), and the product of two groups is one term. A run is a sequence of terms. A tile register
// is not the tile of a Spec. The rows of a tile are divided into parts, and there is a tile register with sums for each
// part and each vector of columns.
//
// For example, a tile has 24 rows, 2 vectors of 16 columns, and 36 terms. Its two parts have 12 rows. The four
// registers 0 to 3 have the sums: 12 rows of 16 columns each. The terms are divided into three chunks of 12 terms. For
// each chunk, the registers 4 and 5 have the broadcast operand: 12 rows of 12 terms, for each part. The registers 6 and
// 7 have the vector operand: 12 terms of 16 columns, for each vector. Four instructions multiply a chunk: one for each
// part and vector.
const (
	// UnitRows is the maximum number of rows of a tile register. A tile has up to two parts of at most UnitRows rows.
	UnitRows = 16
	// UnitTerms is the maximum number of terms of a chunk: the terms that one instruction multiplies.
	UnitTerms = 16
	// UnitVectors is the maximum number of vectors of a tile.
	UnitVectors = 2
	// UnitScratchBytes is the size of the memory for the sums of a tile: two parts, in rows of lineBytes = 64 bytes.
	UnitScratchBytes = 2 * UnitRows * UnitVectors * lineBytes
	// UnitCallGroups is the maximum number of products of groups in a call. It bounds the time of a call, which
	// cannot be preempted, to 25 us at a third of the peak rate.
	UnitCallGroups = 5 << 20
	// UnitMinCallGroups is the desired minimum number of products of groups in a call. Starting a call takes 0.1 us,
	// the time of 1<<16 products, which is 6% of the time of UnitMinCallGroups products.
	UnitMinCallGroups = 1 << 20
	// UnitGrain is the speed of the matrix unit divided by the speed of vectors. A unit of parallel work for the
	// matrix unit has at least UnitGrain times as many multiplications as one for vectors.
	UnitGrain = 4
)

// checkMatrixUnit returns an error if the matrix unit does not support a spec.
func (s *Spec) checkMatrixUnit() error {
	// Run.Rows is a bit set; 0 stands for all rows.
	hasAllRows := func(run Run) bool { return run.Rows == 0 || run.Rows == uint32(1<<s.Rows-1) }
	isByRows := func(step EpilogueStep) bool { return step.Op == AddRows || step.Op == MulRows }
	lacksRequired := !s.Int8 || s.In == nil || s.Out == nil
	hasUnsupported := s.InitialSum == FromRows || s.Masked || s.PackedStep != 0 || len(s.Prefetch) > 0
	switch {
	case lacksRequired || hasUnsupported:
		return fmt.Errorf("tile: the matrix unit requires Int8, In and Out, and supports neither InitialSum FromRows " +
			"nor Masked, PackedStep or Prefetch")
	case s.Vectors > UnitVectors || s.Rows > 2*UnitRows:
		return fmt.Errorf("tile: %d rows of %d vectors: the matrix unit supports at most %d rows of %d vectors", s.Rows,
			s.Vectors, 2*UnitRows, UnitVectors)
	case slices.ContainsFunc(s.Epilogue, isByRows):
		return fmt.Errorf("tile: the matrix unit does not support epilogues by rows")
	}
	for _, run := range s.Runs {
		if run.Terms == Dynamic || !hasAllRows(run) {
			return fmt.Errorf("tile: the matrix unit requires a constant number of terms and all rows in each run: the run "+
				"is %+v", run)
		}
	}
	_, err := s.splitForUnit()
	return err
}

// unitSplit is the division of a tile's rows into parts, and of its terms into chunks, for the matrix unit. All parts
// have the same number of rows. For example, 24 rows become two parts of 12 rows, and 23 rows become the rows 0 to 11
// and the rows 11 to 22, where row 11 is computed twice. A run of 36 terms has three chunks of 12 terms. A run of 40
// terms has two chunks of 16 terms and a last chunk of 8 terms, because no three equal chunks have 40 terms.
type unitSplit struct {
	partRows       int   // number of rows of a part
	firstRows      []int // by part: its first row
	inRowStep      int   // distance in bytes between rows of the broadcast operand
	vecStep        int   // distance in bytes between terms of the vector operand
	outRowStep     int   // distance in bytes between rows of the result; 0 if it is not constant
	chunkTerms     int   // number of terms of a chunk
	lastChunkTerms int   // number of terms of a run's last chunk if it is shorter, else 0
}

// splitForUnit divides a tile for the matrix unit. The spec must have passed all other checks.
func (s *Spec) splitForUnit() (split unitSplit, err error) {
	segments := split.divideRows(s.In)
	split.setParts(segments)
	isTooShort := func(segmentRows int) bool { return segmentRows < split.partRows }
	if slices.ContainsFunc(segments, isTooShort) || len(split.firstRows) > 2 {
		return split, fmt.Errorf("tile: the matrix unit supports at most 2 parts of %d rows, of equal length; the segments "+
			"have %v rows", UnitRows, segments)
	}
	split.setOutStep(s.Out)
	return split, split.setChunks(s)
}

// divideRows divides the rows, which have the given offsets, into segments with equal distances between rows. It
// returns the number of rows of each segment. All segments have the distance of the first two rows, which divideRows
// stores in inRowStep.
func (u *unitSplit) divideRows(offsets []int) (segments []int) {
	if len(offsets) > 1 {
		u.inRowStep = offsets[1] - offsets[0]
	}
	for i := range offsets {
		if i == 0 || offsets[i]-offsets[i-1] != u.inRowStep { // a segment begins
			segments = append(segments, 0)
		}
		segments[len(segments)-1]++
	}
	return segments
}

// setParts sets partRows and firstRows. It divides each segment evenly into the fewest parts; the longest part
// determines the length of all.
func (u *unitSplit) setParts(segments []int) {
	for _, rows := range segments {
		parts := (rows + UnitRows - 1) / UnitRows
		u.partRows = max(u.partRows, (rows+parts-1)/parts)
	}
	start := 0 // first row of the segment
	for _, rows := range segments {
		for i := 0; i < rows; i += u.partRows { // the last part may overlap the previous one
			u.firstRows = append(u.firstRows, start+min(i, rows-u.partRows))
		}
		start += rows
	}
}

// setOutStep sets outRowStep from the offsets of the rows in the result. The distance must be the same for all adjacent
// rows of a part, and for all parts.
func (u *unitSplit) setOutStep(offsets []int) {
	for part, first := range u.firstRows {
		for row := first + 1; row < first+u.partRows; row++ {
			step := offsets[row] - offsets[row-1]
			if part == 0 && row == first+1 {
				u.outRowStep = step
			}
			if step != u.outRowStep {
				u.outRowStep = 0
				return
			}
		}
	}
	if u.partRows == 1 {
		u.outRowStep = lineBytes // parts have one row, so the distance does not matter: any constant other than 0
	}
}

// setChunks sets chunkTerms, lastChunkTerms and vecStep. Chunks have equal lengths if this does not increase their
// number. Otherwise they have UnitTerms terms, and the last chunk of a run may be shorter. setChunks returns an error
// if the matrix unit does not support the runs.
func (u *unitSplit) setChunks(spec *Spec) error {
	u.vecStep = spec.Runs[0].VecStep
	u.chunkTerms = equalChunkTerms(spec.Runs)
	if u.chunkTerms == 0 {
		u.chunkTerms = UnitTerms
	}
	for _, run := range spec.Runs {
		lastTerms := run.Terms % u.chunkTerms
		hasOtherLastChunk := lastTerms > 0 && u.lastChunkTerms > 0 && lastTerms != u.lastChunkTerms
		if run.VecStep != u.vecStep || run.InStep != spec.ElemBytes || hasOtherLastChunk {
			return fmt.Errorf("tile: the matrix unit requires VecStep %d and InStep %d, and a common length of "+
				"the runs' last chunks if they are shorter than %d terms: the run is %+v", u.vecStep, spec.ElemBytes, u.chunkTerms,
				run)
		}
		u.lastChunkTerms = max(u.lastChunkTerms, lastTerms)
	}
	return nil
}

// equalChunkTerms returns the greatest number of terms that divides the length of each run and gives the fewest
// possible chunks, or 0 if there is none.
func equalChunkTerms(runs []Run) int {
	fewest := 0
	for _, run := range runs {
		fewest += (run.Terms + UnitTerms - 1) / UnitTerms
	}
	for terms := UnitTerms; terms > 0; terms-- {
		count := 0
		for _, run := range runs {
			if run.Terms%terms > 0 { // the number does not divide the run: a count above fewest rejects it
				count = fewest + 1
			}
			count += run.Terms / terms
		}
		if count == fewest {
			return terms
		}
	}
	return 0
}
