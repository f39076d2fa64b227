package npz

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/tensor"
)

// TestStrings writes strings and reads them back. Without its padding, the header is that of numpy.save.
func TestStrings(t *testing.T) {
	for _, c := range []struct {
		list   []string
		shape  []int
		header string
	}{
		{[]string{"", "été", "\U0001F600b"}, []int{3}, "{'descr': '<U3', 'fortran_order': False, 'shape': (3,), }"},
		{[]string{"", ""}, []int{1, 2}, "{'descr': '<U1', 'fortran_order': False, 'shape': (1, 2), }"},
		{[]string{}, []int{0, 2}, "{'descr': '<U1', 'fortran_order': False, 'shape': (0, 2), }"},
		{[]string{"scalar"}, nil, "{'descr': '<U6', 'fortran_order': False, 'shape': (), }"},
	} {
		var b bytes.Buffer
		require.NoError(t, WriteStrings(&b, c.list, c.shape))
		if !machineIsBigEndian {
			require.Contains(t, b.String(), c.header)
		}
		x, err := ReadNPY(bytes.NewReader(b.Bytes()), int64(b.Len()))
		require.NoError(t, err)
		require.Equal(t, len(c.shape)+1, x.Rank())
		got, err := Strings(x)
		require.NoError(t, err)
		require.Equal(t, c.list, got)
	}
	require.ErrorContains(t, WriteStrings(&bytes.Buffer{}, []string{"a"}, []int{2}), "got 1 strings for shape [2]")
	_, err := Strings(tensor.Zeros(tensor.Int64, 2))
	require.Error(t, err)
}

// TestForeignStrings reads headers that only numpy writes: bytes, big-endian characters and column-major order.
func TestForeignStrings(t *testing.T) {
	for _, c := range []struct {
		header, data string
		want         []string
	}{
		{"{'descr': '|S2', 'fortran_order': False, 'shape': (2,), }", "ab\x00\x00", []string{"ab", ""}},
		{"{'descr': '>U1', 'fortran_order': False, 'shape': (2,), }", "\x00\x00\x00a\x00\x11\x00\x00",
			[]string{"a", "\uFFFD"}}, // the last character is above the maximum of Unicode
		{"{'descr': '|S1', 'fortran_order': True, 'shape': (2, 2), }", "acbd", []string{"a", "b", "c", "d"}},
		{"{'descr': '|S2', 'fortran_order': True, 'shape': (2, 2), }", "a0c0b0d0", []string{"a0", "b0", "c0", "d0"}},
	} {
		file := magic + "\x01\x00" + string([]byte{byte(len(c.header)), 0}) + c.header + c.data
		x, err := ReadNPY(bytes.NewReader([]byte(file)), int64(len(file)))
		require.NoError(t, err, c.header)
		got, err := Strings(x)
		require.NoError(t, err)
		require.Equal(t, c.want, got, c.header)
	}
	for _, code := range []string{"|S0", "<U-1", "<U", "<U99999999999999999999"} {
		_, err := parseHeader("{'descr': '" + code + "', 'fortran_order': False, 'shape': (1,), }")
		require.ErrorContains(t, err, "unsupported dtype")
	}
}
