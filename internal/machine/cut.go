package machine

// Cut is units of work, such as rows of an image, in chunks that are as even as can be.
type Cut struct{ Units, Chunks int }

// A step that has less than fewChunks grains of work is cut into as many chunks all the same, of a grain's leastPart at
// least: handing out costs more of them, but less than a worker loses who waits for one that is at a whole grain.
const (
	fewChunks = 2
	leastPart = 4
)

// CutUnits cuts units, each of so much work, into chunks of about a grain. Their number is even where there are
// several: so the first half of the chunks is the first half of the units, within one, whatever the grain, and of steps
// that go through the same rows each of two workers has the rows that it wrote in the step before.
func CutUnits(units, work, grain int) Cut {
	all := float64(units) * float64(max(1, work))
	n := all / float64(max(1, grain))
	if n < fewChunks {
		n = min(fewChunks, n*leastPart)
	}
	k := int(min(n, float64(units)))
	if k > 1 && k%2 == 1 {
		k++
	}
	return Cut{units, min(max(1, k), units)}
}

// Range returns the units of a chunk: from first on, as far as end.
func (c Cut) Range(chunk int) (first, end int) {
	each, rest := c.Units/c.Chunks, c.Units%c.Chunks
	return each*chunk + rest*chunk/c.Chunks, each*(chunk+1) + rest*(chunk+1)/c.Chunks
}
