package view

import (
	"fmt"
	"slices"
	"strings"

	"github.com/graphrun/graphrun/cli/internal/format"
	"github.com/graphrun/graphrun/cli/internal/term"
	"github.com/graphrun/graphrun/internal/graphdraw"
)

// level is the drawing of the items of a group. Its coordinates run along the direction of the picture: y from
// operands to results, x across.
type level struct {
	*graphdraw.Drawing
	sizes []graphdraw.Box // of the items, then of the ports
	lines []line
	ports []port
}

// line connects items and ports of a group. Ports are numbered after the items.
type line struct {
	values []int // indices of picture.nets
	from   int
	to     []int
	layout int // an index of the legend; -1 for none or several
}

// port is a point on the frame of a group at which a line from outside continues inside the group.
type port struct {
	line int // an index of the lines around the group
	out  bool
}

// The parts of a frame around an open group.
const (
	frameHead = 26.0 // the height of its label
	portGap   = 12.0 // the size of a port across
)

// scene is a picture with its groups, and the drawing of each group.
type scene struct {
	*picture
	root       *item
	horizontal bool
	levels     map[*item]*level
	texts      map[*item]*svgBox
}

// stage draws the groups of a picture: all groups that can be opened, or only the open groups.
func (p *picture) stage(root *item, horizontal, all bool) (*scene, error) {
	s := &scene{picture: p, root: root, horizontal: horizontal, levels: map[*item]*level{}, texts: map[*item]*svgBox{}}
	values := make([]int, len(p.nets))
	for i := range values {
		values[i] = i
	}
	_, err := s.level(root, "", values, nil, all)
	return s, err
}

// level draws the items of a group. scope is the scope around it, values are the values that its boxes compute or read,
// and around has the line around the group for each value that enters or leaves it.
func (s *scene) level(g *item, scope string, values []int, around map[int]int, all bool) (*level, error) {
	l := &level{}
	if g.scope != "" {
		scope = g.scope
	}
	within, lineOf := s.connect(g, l, values, around)
	names := s.names(g, scope)
	for i, x := range g.items {
		t := s.boxed(x, names[i])
		s.texts[x] = t
		size := t.size
		if x.box < 0 && (all || x.open) {
			inner, err := s.level(x, scope, within[i], lineOf, all)
			if err != nil {
				return nil, err
			}
			if x.open {
				size = s.frame(inner, t)
			}
		}
		l.sizes = append(l.sizes, s.along(size))
	}
	for _, p := range l.ports {
		b := graphdraw.Box{Width: portGap, Side: graphdraw.First}
		if p.out {
			b.Side = graphdraw.Last
		}
		l.sizes = append(l.sizes, b)
	}
	nets := make([]graphdraw.Net, len(l.lines))
	for i, n := range l.lines {
		nets[i] = graphdraw.Net{From: n.from, To: n.to}
	}
	var err error
	l.Drawing, err = graphdraw.Draw(l.sizes, nets)
	s.levels[g] = l
	return l, err
}

// along swaps width and height of a horizontal picture.
func (s *scene) along(b graphdraw.Box) graphdraw.Box {
	if s.horizontal {
		b.Width, b.Height = b.Height, b.Width
	}
	return b
}

// frame returns the size of an open group.
func (s *scene) frame(l *level, label *svgBox) graphdraw.Box {
	size := s.along(graphdraw.Box{Width: l.Width, Height: l.Height})
	return graphdraw.Box{Width: max(size.Width, label.labelWidth()),
		Height: size.Height + frameHead}
}

// labelWidth returns the least width of the frame of an open group.
func (b *svgBox) labelWidth() float64 { return headWidth*float64(term.Width(b.frameLabel)) + 60 }

// holders returns, for each box of a group, the index of the item that has it.
func (s *scene) holders(g *item) map[int]int {
	holder := map[int]int{}
	var add func(x *item, i int)
	add = func(x *item, i int) {
		if x.box >= 0 {
			holder[x.box] = i
		}
		for _, y := range x.items {
			add(y, i)
		}
	}
	for i, x := range g.items {
		add(x, i)
	}
	return holder
}

// connect makes the lines and ports of a group. It returns the values of each item and the line of each value. Values
// between the same items share a line. If all these items are boxes, each value has its own line.
func (s *scene) connect(g *item, l *level, values []int, around map[int]int) (within [][]int, lineOf map[int]int) {
	within, lineOf = make([][]int, len(g.items)), map[int]int{}
	holder, lines, ports := s.holders(g), map[string]int{}, map[port]int{}
	for _, v := range values {
		n := &s.nets[v]
		var to []int
		leaves := false
		for _, b := range n.to {
			at, inside := holder[b]
			if leaves = leaves || !inside; inside && !slices.Contains(to, at) {
				to = append(to, at)
			}
		}
		from, inside := holder[n.from]
		if !inside {
			from = -1
		}
		for i := range g.items {
			if g.items[i].box < 0 && (i == from || slices.Contains(to, i)) {
				within[i] = append(within[i], v)
			}
		}
		portAt := func(out bool) int {
			p := port{around[v], out}
			if _, is := ports[p]; !is {
				ports[p] = len(g.items) + len(l.ports)
				l.ports = append(l.ports, p)
			}
			return ports[p]
		}
		switch to = slices.DeleteFunc(to, func(i int) bool { return i == from }); {
		case !inside:
			from = portAt(false)
		case leaves:
			to = append(to, portAt(true))
		}
		if len(to) > 0 {
			lineOf[v] = s.join(g, l, lines, line{[]int{v}, from, to, n.layout})
		}
	}
	return within, lineOf
}

// join adds a line, or its value to a line between the same items, and returns the index of the line.
func (s *scene) join(g *item, l *level, lines map[string]int, n line) int {
	key := fmt.Sprint(n.from, n.to)
	single := !slices.ContainsFunc(append([]int{n.from}, n.to...), func(i int) bool {
		return i >= len(g.items) || g.items[i].box < 0
	})
	at, is := lines[key]
	if !is || single {
		lines[key] = len(l.lines)
		l.lines = append(l.lines, n)
		return lines[key]
	}
	same := &l.lines[at]
	if same.values = append(same.values, n.values...); same.layout != n.layout {
		same.layout = -1
	}
	return at
}

// boxed returns the text of an item.
func (s *scene) boxed(x *item, name string) *svgBox {
	if x.box >= 0 {
		return boxed(&s.boxes[x.box], name)
	}
	sum := &pictureBox{kind: groupBox, head: x.label, layout: -1}
	ops, copies, boxes, marked := map[string]int{}, 0, 0, 0
	measured, predicted := 0.0, 0.0
	var list []string
	s.each(x, func(b *pictureBox) {
		boxes++
		sum.share += b.share
		if b.measured > 0 {
			measured, predicted = measured+b.measured, predicted+b.predicted
		}
		if b.kind == copyBox {
			copies++
		}
		if len(b.marks) > 0 {
			marked++
		}
		if ops[b.head]++; ops[b.head] == 1 {
			list = append(list, b.head)
		}
	})
	slices.SortStableFunc(list, func(a, b string) int { return ops[b] - ops[a] })
	for i, op := range list {
		if ops[op] > 1 {
			list[i] = fmt.Sprintf("%s ×%d", op, ops[op])
		}
	}
	if x.repeats > 0 {
		sum.head += fmt.Sprintf(" × %d", x.repeats)
		sum.lines = append(sum.lines, fmt.Sprintf("%d equal blocks, %s", x.repeats,
			format.CountIrregular(boxes, "box", "boxes")))
	} else {
		sum.lines = append(sum.lines, format.CountIrregular(boxes, "box", "boxes"))
	}
	sum.lines = append(sum.lines, term.CutEnd(strings.Join(list, ", "), boxColumns))
	if copies > 0 {
		sum.lines = append(sum.lines, format.CountIrregular(copies, "inserted copy", "inserted copies"))
	}
	if marked > 0 {
		sum.marks = []string{"≠ " + format.CountIrregular(marked, "box differs", "boxes differ")}
	}
	if sum.share > 0 {
		sum.lines = append(sum.lines, format.Percent(sum.share)+" of the cost")
	}
	if measured > 0 {
		sum.lines = append(sum.lines, "measured "+measuredText(measured, predicted))
	}
	b := boxed(sum, "")
	b.frameLabel = format.Printable(sum.head)
	return b
}

// names returns the names of the boxes of a group, relative to the scope around them and short enough for a box.
func (s *scene) names(g *item, scope string) []string {
	list := make([]string, len(g.items))
	for i, x := range g.items {
		if x.box < 0 {
			continue
		}
		list[i] = format.Printable(s.boxes[x.box].name)
		for _, prefix := range []string{"/" + scope + "/", scope + "/", strings.ReplaceAll(scope, "/", ".") + "."} {
			if rest, is := strings.CutPrefix(list[i], prefix); is && scope != "" && rest != "" {
				list[i] = rest
				break
			}
		}
	}
	return distinct(list, boxColumns)
}

// each calls f with the boxes of an item.
func (s *scene) each(x *item, f func(*pictureBox)) {
	if x.box >= 0 {
		f(&s.boxes[x.box])
	}
	for _, y := range x.items {
		s.each(y, f)
	}
}
