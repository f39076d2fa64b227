package compare

import (
	"encoding/csv"
	"io"
	"strconv"
)

// writeCSV writes a row for each run, in the order of the runs, with what is the same for all runs of a strategy in
// each. What nobody knows is empty.
func (s *comparison) writeCSV(w io.Writer) error {
	out := csv.NewWriter(w)
	head := []string{"file"}
	symbols := s.symbols()
	for _, name := range symbols {
		head = append(head, "dim_"+name)
	}
	head = append(head, "threads", "strategy", "run", "ns", "cost_ns", "lower_bound_ns", "gap", "copies", "copied_bytes",
		"moved_bytes", "peak_bytes", "peak_with_weights_bytes", "plan_ms")
	_ = out.Write(head) // errors are those of Flush
	for _, r := range s.rows {
		first := []string{r.File}
		for _, name := range symbols {
			size := ""
			if n, ok := r.Dims[name]; ok {
				size = strconv.Itoa(n)
			}
			first = append(first, size)
		}
		first = append(first, strconv.Itoa(r.Threads), r.Name)
		last := []string{decimal(&r.CostNS), decimal(r.BoundNS), decimal(r.Gap), strconv.Itoa(r.Copies),
			strconv.Itoa(r.CopiedBytes), strconv.Itoa(r.MovedBytes), strconv.Itoa(r.PeakBytes),
			strconv.Itoa(r.PeakWithWeights), decimal(&r.PlanMS)}
		for i, ns := range r.Samples {
			row := append(append([]string{}, first...), strconv.Itoa(i+1), decimal(&ns))
			_ = out.Write(append(row, last...))
		}
	}
	out.Flush()
	return out.Error()
}

// decimal prints a number as programs read it; empty for none.
func decimal(x *float64) string {
	if x == nil {
		return ""
	}
	return strconv.FormatFloat(*x, 'f', -1, 64)
}
