package drift

import (
	"errors"

	"klink/fetcher/batch"
)

// atSource names the record of an error by its offset on the source.
func atSource(err error, offsets []int64) error {
	var big *batch.RecordTooLargeError
	if errors.As(err, &big) && big.Offset >= 0 && big.Offset < int64(len(offsets)) {
		return &batch.RecordTooLargeError{Offset: offsets[big.Offset], Bytes: big.Bytes, MaxBytes: big.MaxBytes}
	}
	return err
}
