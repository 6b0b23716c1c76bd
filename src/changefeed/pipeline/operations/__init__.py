"""Operations on a pipeline besides running it: check, explain, status, repair, replay, expire, transcode."""
