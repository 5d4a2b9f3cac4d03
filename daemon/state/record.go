package state

func sealRecord(name string, r Record) ([]byte, error) { return sealJSON(name, &r) }

func unsealRecord(name string, sealed []byte) (r Record, err error) {
	err = unsealJSON(name, sealed, &r)
	return r, err
}

// RecordIn returns the record of the autoscaler that [Records] have a value of; an empty
// name for a value of something else.
func RecordIn(key string, value []byte) (name string, r Record, err error) {
	at, ok := slotOf(key)
	if !ok || at.bucket != string(autoscalersBucket) || value == nil {
		return "", Record{}, nil
	}
	r, err = unsealRecord(at.key, value)
	return at.key, r, err
}
