package strided

// Way is how a copy goes over its elements.
type Way uint8

const (
	// Rows: runs that lie one behind another on both sides.
	Rows Way = iota
	// Turned: one side lies along one dimension, the other along another, and tiles are turned in registers.
	Turned
	// Steps: some side has steps in whatever dimension is gone along, or elements are converted.
	Steps
)

// Way tells how the copy goes: by rows of so many elements each, in tiles whose shorter side is so long, or with
// steps.
func (p *Copy) Way() (way Way, length int) {
	switch {
	case p.turned || p.staged:
		return Turned, min(p.a.N, p.b.N)
	case p.elem.moves && p.a.Dst == p.elem.Dst && p.a.Src == p.elem.Src || p.a.N == 1:
		return Rows, p.a.N
	}
	return Steps, 1
}
