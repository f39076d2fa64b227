package experiment

import (
	"fmt"
	"math"
)

// units has the units of a quantity.
type units struct {
	names []string // from the smallest unit to the largest
	ratio float64  // ratio of successive units
}

var (
	timeUnits = units{names: []string{"ns", "µs", "ms", "s"}, ratio: 1000}
	byteUnits = units{names: []string{"B", "KiB", "MiB", "GiB", "TiB"}, ratio: 1024}
)

// cells formats the numbers of a column in a common unit, the unit that suits the largest number, and returns this
// unit. All numbers have the same number of decimals. In the smallest unit there are no decimals. In other units, the
// smallest positive number gets three significant digits, but at most 3 decimals. A nil number is a dash.
func (u units) cells(values []*float64) (unit string, cells []string) {
	largest, smallest := 0.0, math.Inf(1)
	for _, value := range values {
		if value != nil && *value > 0 {
			largest, smallest = max(largest, *value), min(smallest, *value)
		}
	}
	index, scale := 0, 1.0 // index of the unit in names, and its size in smallest units
	for index+1 < len(u.names) && largest >= scale*u.ratio {
		index, scale = index+1, scale*u.ratio
	}
	decimals := 0
	if index > 0 {
		exponent := int(math.Floor(math.Log10(smallest / scale))) // exponent of the first of the three digits
		decimals = min(3, max(0, 2-exponent))
	}
	for _, value := range values {
		if value == nil {
			cells = append(cells, "-")
		} else {
			cells = append(cells, fmt.Sprintf("%.*f", decimals, *value/scale))
		}
	}
	return u.names[index], cells
}
