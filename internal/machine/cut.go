package machine

// Division divides units of work, such as rows of an image, into chunks of nearly equal size.
type Division struct{ Units, Chunks int }

// A grain is the usual amount of work per chunk. A step of less than two grains (smallStepChunks) is still cut into two
// chunks if each has at least a quarter of a grain (1/minChunkDivisor). Handing out an additional chunk costs less than
// an idle worker.
const (
	smallStepChunks = 2
	minChunkDivisor = 4
)

// DivideUnits cuts units into chunks of about one grain. work is the amount of work of one unit. The number of chunks
// is 1, even, or the number of units. Whatever the grain, the first half of the chunks therefore covers the first half
// of the units, to within one unit. Consecutive steps over the same rows may have different grains. Each of two workers
// then reads the rows that it wrote in the previous step.
func DivideUnits(units, work, grain int) Division {
	totalWork := float64(units) * float64(max(1, work))
	grains := totalWork / float64(max(1, grain))
	if grains < smallStepChunks {
		grains = min(smallStepChunks, grains*minChunkDivisor)
	}
	chunks := int(min(grains, float64(units)))
	if chunks > 1 && chunks%2 == 1 {
		chunks++
	}
	return Division{Units: units, Chunks: min(max(1, chunks), units)}
}

// ChunkRange returns the units [first, end) of a chunk: first is floor(Units*chunk/Chunks), computed without overflow.
func (d Division) ChunkRange(chunk int) (first, end int) {
	quotient, remainder := d.Units/d.Chunks, d.Units%d.Chunks
	return quotient*chunk + remainder*chunk/d.Chunks, quotient*(chunk+1) + remainder*(chunk+1)/d.Chunks
}
