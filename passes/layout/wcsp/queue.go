package wcsp

// queue is a priority queue: a binary heap. Element i comes before the elements 2*i+1 and 2*i+2, if they exist, so that
// the first element comes before all others.
type queue[T interface{ Compare(T) int }] []T

// push adds an element.
func (q *queue[T]) push(x T) {
	*q = append(*q, x)
	list := *q
	for i := len(list) - 1; i > 0; {
		parent := (i - 1) / 2
		if list[i].Compare(list[parent]) >= 0 {
			return
		}
		list[i], list[parent] = list[parent], list[i]
		i = parent
	}
}

// pop removes the first element of a nonempty queue and returns it.
func (q *queue[T]) pop() T {
	list := *q
	first, last := list[0], len(list)-1
	list[0] = list[last]
	clear(list[last:]) // so that the element can be freed
	list = list[:last]
	*q = list
	for i := 0; ; {
		child := 2*i + 1
		if child >= last {
			return first
		}
		if child+1 < last && list[child+1].Compare(list[child]) < 0 {
			child++
		}
		if list[child].Compare(list[i]) >= 0 {
			return first
		}
		list[i], list[child] = list[child], list[i]
		i = child
	}
}
