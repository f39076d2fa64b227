package index

import (
	"context"
	"slices"

	"github.com/graphrun/graphrun/internal/interrupt"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// findRuns returns the runs of rows. starts marks the first row of each run. It does not set uniques.first.
func findRuns(ctx context.Context, rows *tensor.Tensor, starts []bool, call uniqueCall) (*uniques, error) {
	output, err := keepSlices(ctx, rows, 0, starts)
	if err != nil {
		return nil, err
	}
	found := &uniques{output: output}
	if call.returnInverse {
		found.inverse = runNumbers(ctx, starts)
	}
	if call.returnCounts {
		found.counts = runLengths(ctx, starts, output.Shape[0])
	}
	return found, nil
}

// runStarts reports for each of count rows whether it differs from the row before. The first row does. A row with NaN
// differs from every row.
func runStarts[T int64 | uint64 | float32 | float64](ctx context.Context, elements []T, count int) []bool {
	starts := kit.SliceOf[bool](tensor.NewStorage(count).Bytes(), 0, count)
	starts[0] = true
	width := len(elements) / count // number of elements of a row
	if width == 1 {
		kit.ForEachBlock(ctx, count-1, func(begin, end int) {
			markChanges(starts[begin+1:end+1], elements[begin:end+1])
		})
		return starts
	}
	stepsSinceCheck := 0
	for i := 1; i < count; i++ {
		if stepsSinceCheck += 1 + width; stepsSinceCheck > kit.CheckEvery { // width may be 0
			interrupt.Check(ctx)
			stepsSinceCheck = 0
		}
		starts[i] = !slices.Equal(elements[(i-1)*width:i*width], elements[i*width:(i+1)*width])
	}
	return starts
}

// markChanges sets isChange[i] if elements i and i+1 differ.
func markChanges[T int64 | uint64 | float32 | float64](isChange []bool, elements []T) {
	following := elements[1:][:len(isChange)]
	for i, x := range elements[:len(isChange)] {
		isChange[i] = x != following[i]
	}
}

// runNumbers returns the number of the run of each row, from 0 on.
func runNumbers(ctx context.Context, starts []bool) []int64 {
	numbers := kit.NewInts[int64](len(starts))
	number := int64(-1)
	kit.ForEachBlock(ctx, len(starts), func(begin, end int) {
		for i := begin; i < end; i++ {
			if starts[i] {
				number++
			}
			numbers[i] = number
		}
	})
	return numbers
}

// runLengths returns the number of rows of each of runCount runs.
func runLengths(ctx context.Context, starts []bool, runCount int) []int64 {
	lengths := kit.NewInts[int64](runCount)
	trueIndices(ctx, lengths, starts) // the first row of each run
	kit.ForEachBlock(ctx, runCount-1, func(begin, end int) {
		for k := begin; k < end; k++ {
			lengths[k] = lengths[k+1] - lengths[k]
		}
	})
	lengths[runCount-1] = int64(len(starts)) - lengths[runCount-1]
	return lengths
}
