//go:build !amd64 || noasm

package machine

const (
	instructions = Portable
	byteProducts = false
)
